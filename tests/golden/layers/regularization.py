"""What only training changes: in inference the identity."""

from cases import Family, normal

family = Family("regularization")

for name, expression, rank in [
    ("dropout", "Dropout(0.5)", 2),
    ("dropout_noise_shape", "Dropout(rate = 0.3, noise_shape = [none, 1, 5], seed = 1)", 3),
    ("spatial_dropout1d", "SpatialDropout1D(0.5)", 3),
    ("spatial_dropout2d", "SpatialDropout2D(0.5)", 4),
    ("spatial_dropout2d_channels_first", "SpatialDropout2D(0.5, data_format = channels_first)", 4),
    ("spatial_dropout3d", "SpatialDropout3D(0.5)", 5),
    ("gaussian_noise", "GaussianNoise(0.5)", 3),
    ("gaussian_dropout", "GaussianDropout(0.5)", 3),
    ("alpha_dropout", "AlphaDropout(0.5)", 3),
    ("activity_regularization", "ActivityRegularization(l1 = 0.1, l2 = 0.01)", 2),
]:
    family.layer(name, expression, X=normal(*[2, 3, 5, 4, 2][:rank]))
family.layer("dropout_of_nothing", "Dropout(0.0)", training=True, X=normal(2, 3))
