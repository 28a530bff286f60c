"""Metrics, of an epoch of two steps."""

from losses import bits, chances, classes, name_of, numbers, one_hot, positive, share, signs
from steps import Family, np

KINDS = [
    (["RootMeanSquaredError()", "MeanSquaredError()", "MeanAbsoluteError()"], numbers, numbers),
    (["MeanAbsolutePercentageError()", '"mse"', '"mae"', '"mape"', "mean_absolute_error"], numbers, numbers),
    (["MeanSquaredLogarithmicError()", "Poisson()"], positive, positive),
    (["KLDivergence()"], chances, chances),
    (["Hinge()", "SquaredHinge()"], numbers, signs),
    (["BinaryAccuracy()", "BinaryAccuracy(threshold = 0.8)", "BinaryCrossentropy()", '"accuracy"'], share, bits),
    (["BinaryCrossentropy(label_smoothing = 0.2)"], share, bits),
    (["BinaryCrossentropy(from_logits = true)"], numbers, bits),
    (["TruePositives()", "FalsePositives()", "TrueNegatives()", "FalseNegatives()"], share, bits),
    ([f"{kind}(thresholds = 0.3)" for kind in ["TruePositives", "FalsePositives", "TrueNegatives"]], share, bits),
    (["FalseNegatives(thresholds = [0.3, 0.6])"], share, bits),
    ([f"Precision({option})" for option in ["", "thresholds = 0.7", "class_id = 1", "top_k = 2"]], share, bits),
    ([f"Recall({option})" for option in ["", "thresholds = 0.7", "class_id = 1", "top_k = 2"]], share, bits),
    (["AUC()", "AUC(num_thresholds = 11)", 'AUC(curve = "PR")', "AUC(thresholds = [0.2, 0.3, 0.9])"], share, bits),
    (["AUC(summation_method = majoring)", "AUC(summation_method = minoring)"], share, bits),
    (['AUC(curve = "PR", summation_method = majoring)', 'AUC(curve = "PR", summation_method = minoring)'], share, bits),
    (["AUC(from_logits = true)"], numbers, bits),
    ([f"F1Score({option})" for option in ["", "average = macro", "average = micro", "average = weighted"]], share, bits),
    (["F1Score(average = macro, threshold = 0.6)", "FBetaScore(average = macro, beta = 2.0, threshold = 0.4)"], share, bits),
    (["FBetaScore()", "FBetaScore(average = micro)", "FBetaScore(average = weighted)"], share, bits),
]
OF_CLASSES = ["CategoricalAccuracy()", "TopKCategoricalAccuracy(k = 2)", "TopKCategoricalAccuracy()", "CategoricalHinge()"]
OF_CLASSES += ["CategoricalCrossentropy()", "CategoricalCrossentropy(label_smoothing = 0.1)", '"accuracy"']
OF_NUMBERS = ["SparseCategoricalAccuracy()", "SparseTopKCategoricalAccuracy(k = 2)", "SparseTopKCategoricalAccuracy()"]
OF_NUMBERS += ["SparseCategoricalCrossentropy()", '"accuracy"']


def families():
    family = Family("metrics")

    def case(metric, predicted, target, **options):
        # The loss must take the same targets.
        options = {"loss": "MeanSquaredError()", "steps": 2} | options
        suffix = options.pop("suffix", "")
        family.case(name_of(metric) + suffix, ["Y = X"], {"X": predicted}, targets={"Y": target}, metrics=[metric], **options)

    for kinds, predicted, target in KINDS:
        for metric in kinds:
            case(metric, predicted(8, 3), target(8, 3))
    for metric in OF_CLASSES:
        case(metric, chances(8, 6), one_hot(6, 8), suffix="_of_classes")
    for metric in OF_NUMBERS:
        case(metric, chances(8, 6), classes(6, 8), suffix="_of_numbers", loss="SparseCategoricalCrossentropy()")
    case("Accuracy()", lambda random: np.round(share(8, 3)(random) * 2), classes(3, 8, 3))
    case("binary_accuracy", share(8, 3), bits(8, 3))
    for metric in ["categorical_accuracy", "top_k_categorical_accuracy"]:
        case(metric, chances(8, 6), one_hot(6, 8))
    for metric in ["sparse_categorical_accuracy", "sparse_top_k_categorical_accuracy"]:
        case(metric, chances(8, 6), classes(6, 8), loss="SparseCategoricalCrossentropy()")
    # Weights of samples are those of the loss alone, as `metrics` of Keras; also along axes after the batch.
    case("MeanAbsoluteError()", numbers(8, 2, 3), numbers(8, 2, 3), sample_weight=share(8), suffix="_weighted")
    yield family
