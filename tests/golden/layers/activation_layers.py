"""The layers of activation functions."""

from cases import Family, flags, normal

family = Family("activation_layers")
layer = family.layer
layer("relu", "ReLU()", X=normal(3, 7, scale=3.0))
layer("relu_max_value", "ReLU(6.0)", X=normal(3, 7, scale=4.0))
layer("relu_parameters", "ReLU(max_value = 3.0, negative_slope = 0.1, threshold = 0.5)", X=normal(3, 7, scale=3.0))
layer("leaky_relu", "LeakyReLU()", X=normal(3, 7))
layer("leaky_relu_slope", "LeakyReLU(negative_slope = 0.01)", X=normal(3, 7))
layer("p_relu", "PReLU()", X=normal(3, 7))
layer("p_relu_of_images", "PReLU()", X=normal(2, 3, 4, 5))
layer("p_relu_shared_axes", "PReLU(shared_axes = [1, 2])", X=normal(2, 3, 4, 5))
layer("elu", "ELU()", X=normal(3, 7))
layer("elu_alpha", "ELU(alpha = 0.3)", X=normal(3, 7))
layer("softmax", "Softmax()", X=normal(3, 7, scale=2.0))
layer("softmax_axis", "Softmax(axis = 1)", X=normal(2, 5, 3, scale=2.0))
layer("softmax_axes", "Softmax(axis = [1, 2])", X=normal(2, 5, 3, scale=2.0))
layer("softmax_mask", "Softmax()", "Y = layer(X, Mask = Mask)", X=normal(3, 7, scale=2.0), Mask=flags(3, 7))
