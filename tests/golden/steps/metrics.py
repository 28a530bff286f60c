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


def class_numbers(count, *shape):
    """Predictions that are class numbers."""
    return lambda random: random.integers(0, count, shape).astype(np.float32)


def whole(*shape):
    """Weights that are whole numbers: Keras cuts off those of its metrics of whole numbers."""
    return lambda random: random.integers(0, 4, shape).astype(np.float32)


LIMITED = ["SensitivityAtSpecificity", "SpecificityAtSensitivity", "PrecisionAtRecall", "RecallAtPrecision"]
MORE = [
    (["LogCoshError()", "PearsonCorrelation()", "ConcordanceCorrelation()", "R2Score()"], numbers, numbers),
    (["PearsonCorrelation(axis = 0)", "ConcordanceCorrelation(axis = 0)", "MeanMetricWrapper(mean_absolute_error)"], numbers, numbers),
    (["R2Score(class_aggregation = none)", "R2Score(class_aggregation = variance_weighted_average)"], numbers, numbers),
    ([f"{kind}(0.6)" for kind in LIMITED], share, bits),
    ([f"{kind}(0.5, num_thresholds = 5)" for kind in LIMITED], share, bits),
    ([f"{kind}(0.4, num_thresholds = 1, class_id = 2)" for kind in LIMITED], share, bits),
    (["AUC(multi_label = true)", "AUC(multi_label = true, num_labels = 3, label_weights = [0.5, 2.0, 1.0])"], share, bits),
    (["AUC(label_weights = [0.5, 2.0, 1.0])", 'AUC(multi_label = true, curve = "PR")'], share, bits),
    (['AUC(curve = "PRGAIN", num_thresholds = 30)', 'AUC(curve = "PRGAIN", summation_method = minoring)'], share, bits),
    (['AUC(multi_label = true, curve = "PR", summation_method = majoring, num_thresholds = 20)'], share, bits),
    (["pearson_correlation", "concordance_correlation"], positive, chances),
]
# Metrics that see the weights of samples.
WEIGHTED = [
    (["RootMeanSquaredError()", "MeanSquaredError()", '"mae"', "LogCoshError()", "R2Score()", "PearsonCorrelation()"], numbers, numbers),
    (["MeanMetricWrapper(mean_absolute_error)"], numbers, numbers),
    (["BinaryAccuracy()", "TruePositives()", "FalsePositives(thresholds = [0.3, 0.6])", "TrueNegatives()"], share, bits),
    (["FalseNegatives()", "Precision()", "Precision(class_id = 1)", "Recall(top_k = 2)", "AUC()", 'AUC(curve = "PR")'], share, bits),
    (["AUC(multi_label = true)", "AUC(label_weights = [0.5, 2.0, 1.0])", "PrecisionAtRecall(0.5)"], share, bits),
    (["F1Score(average = weighted)", "FBetaScore(average = macro, threshold = 0.5)"], share, bits),
]


def more():
    """Metrics of all samples, and those that see their weights."""
    family = Family("metrics_more")

    def case(metric, predicted, target, suffix="", **options):
        options = {"loss": "MeanSquaredError()", "steps": 2} | options
        family.case(name_of(metric) + suffix, ["Y = X"], {"X": predicted}, targets={"Y": target}, **options)

    for kinds, predicted, target in MORE:
        for metric in kinds:
            case(metric, predicted(8, 3), target(8, 3), metrics=[metric])
    adjusted = "R2Score(num_regressors = 2)"
    case(adjusted, numbers(8, 1), numbers(8, 1), metrics=[adjusted], steps=1, apart=True)
    for metric in ["IoU(3, [0, 2])", "IoU(3, [1], ignore_class = 0)", "MeanIoU(3)", "MeanIoU(3, ignore_class = 2)", "MeanIoU(5)"]:
        case(metric, class_numbers(3, 8, 4), classes(3, 8, 4), metrics=[metric])
    for metric in ["BinaryIoU()", "BinaryIoU(threshold = 0.7)", "BinaryIoU(target_class_ids = [1])"]:
        case(metric, share(8, 4), bits(8, 4), metrics=[metric])
    for metric in ["OneHotIoU(3, [0, 2])", "OneHotMeanIoU(3)", "OneHotIoU(3, [0], ignore_class = 1)", "OneHotMeanIoU(3, ignore_class = 1)"]:
        case(metric, chances(8, 3), one_hot(3, 8), metrics=[metric])
    # The loss takes what has as many axes.
    flat = {"loss": "SparseCategoricalCrossentropy()"}
    for kind in ["IoU(3, [1, 2], sparse_y_pred = false)", "MeanIoU(3, sparse_y_pred = false)"]:
        case(kind, chances(8, 3), classes(3, 8), metrics=[kind], **flat)
    for kind in ["IoU(3, [0], sparse_y_true = false, sparse_y_pred = false)", "MeanIoU(3, sparse_y_true = false, sparse_y_pred = false)"]:
        case(kind, chances(8, 3), one_hot(3, 8), metrics=[kind])
    metric = "SparseTopKCategoricalAccuracy(k = 2, from_sorted_ids = true)"
    case(metric, lambda random: np.stack([random.permutation(6) for _ in range(8)]).astype(np.float32), classes(6, 8), metrics=[metric], **flat)
    for kinds, predicted, target in WEIGHTED:
        for metric in kinds:
            case(metric, predicted(8, 3), target(8, 3), "_weighted", weighted_metrics=[metric], sample_weight=share(8))
    weights = {"sample_weight": whole(8)}
    for metric in ["MeanIoU(3)", "IoU(3, [0, 2])"]:
        case(metric, class_numbers(3, 8, 1), classes(3, 8, 1), "_weighted", weighted_metrics=[metric], **weights)
    metric = "SparseCategoricalAccuracy()"
    case(metric, chances(8, 6), classes(6, 8), "_weighted", weighted_metrics=[metric], sample_weight=share(8), **flat)
    both = {"metrics": ["MeanAbsoluteError()"], "weighted_metrics": ["MeanAbsoluteError()"]}
    case("both", numbers(8, 2, 3), numbers(8, 2, 3), sample_weight=share(8), **both)
    # Without weights each sample counts once.
    case("none", numbers(8, 3), numbers(8, 3), weighted_metrics=["MeanAbsoluteError()"])
    return family


def families():
    yield more()
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
