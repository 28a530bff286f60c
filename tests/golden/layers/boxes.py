"""Boxes in images, by NumPy. TensorFlow's `tf.image.non_max_suppression` defines the selection."""

from cases import Family, keras, np


def corners(box):
    box = np.sort(np.asarray(box, np.float64).reshape(2, 2), axis=0)
    return box[0], box[1], np.prod(box[1] - box[0])


def iou(a, b):
    (first_a, last_a, area_a), (first_b, last_b, area_b) = corners(a), corners(b)
    shared = np.prod(np.maximum(np.minimum(last_a, last_b) - np.maximum(first_a, first_b), 0))
    return shared / (area_a + area_b - shared) if area_a > 0 and area_b > 0 else 0.0


def box_iou(a, b):
    a, b = np.broadcast_arrays(keras.ops.convert_to_numpy(a), keras.ops.convert_to_numpy(b))
    pairs = zip(a.reshape(-1, 4), b.reshape(-1, 4))
    return np.array([iou(*pair) for pair in pairs]).reshape(a.shape[:-1])


def non_max_suppression(max_output_size, iou_threshold=0.5, score_threshold=None):
    def of_image(boxes, scores):
        low = -np.inf if score_threshold is None else score_threshold
        selected = []
        for number in np.argsort(-scores, kind="stable"):
            apart = all(iou(boxes[number], boxes[other]) <= iou_threshold for other in selected)
            if scores[number] > low and apart and len(selected) < max_output_size:
                selected.append(number)
        return selected

    def call(boxes, scores):
        boxes, scores = keras.ops.convert_to_numpy(boxes), keras.ops.convert_to_numpy(scores)
        outer = scores.shape[:-1]
        images = zip(boxes.reshape(-1, *boxes.shape[-2:]), scores.reshape(-1, scores.shape[-1]))
        found = [of_image(*image) for image in images]
        padded = [selected + [0] * (max_output_size - len(selected)) for selected in found]
        counts = np.array([len(selected) for selected in found], np.int32)
        return np.array(padded, np.int32).reshape(*outer, max_output_size), counts.reshape(outer)

    return call


def boxes(*outer):
    """Some boxes share most of their area, and some have their corners the other way round."""

    def make(random):
        centre = random.uniform(0, 1, (*outer, 1, 2))
        first, last = (centre - random.uniform(0.05, 0.4, (*outer, 1, 2)), centre + random.uniform(0.05, 0.4, (*outer, 1, 2)))
        box = np.concatenate([first, last], axis=-2)
        turned = random.random((*outer, 1, 1)) < 0.2
        return np.where(turned, box[..., ::-1, :], box).reshape(*outer, 4).astype(np.float32)

    return make


def uniform(*shape):
    return lambda random: random.uniform(0, 1, shape).astype(np.float32)


def given(array, dtype=np.float32):
    return lambda random: np.array(array, dtype)


family = Family("boxes", {"box_iou": box_iou, "non_max_suppression": non_max_suppression})
family.body("box_iou", ["Y = box_iou(A, B)"], A=boxes(3, 5), B=boxes(3, 5))
family.body("box_iou_of_all", ["Y = box_iou(A, B)"], A=boxes(6, 1), B=boxes(4))
selected = "Selected, Count = non_max_suppression"
family.body("suppression", [f"{selected}(8)(Boxes, Scores)"], Boxes=boxes(30), Scores=uniform(30))
family.body("suppression_of_images", [f"{selected}(6, 0.3)(Boxes, Scores)"], Boxes=boxes(3, 25), Scores=uniform(3, 25))
family.body(
    "suppression_of_classes",
    [f"{selected}(max_output_size = 5, iou_threshold = 0.6, score_threshold = 0.7)(Boxes, Scores)"],
    Boxes=boxes(2, 3, 12),
    Scores=uniform(2, 3, 12),
)
# Half of the second box is the first; the third and the fourth have no area; the last two are the same box.
SPECIAL = [[0, 0, 2, 2], [0, 0, 2, 4], [5, 5, 5, 7], [5, 5, 5, 7], [9, 9, 8, 8], [8, 8, 9, 9]]
for name, options in [("half", "6"), ("less_than_half", "6, 0.49"), ("above_a_score", "6, score_threshold = 0.5")]:
    family.body(
        f"suppression_{name}",
        [f"{selected}({options})(Boxes, Scores)"],
        Boxes=given(SPECIAL),
        Scores=given([0.5, 0.75, 0.25, 1, 0.625, 0.625]),
    )
family.body("suppression_of_negative_scores", [f"{selected}(3)(Boxes, Scores)"], Boxes=boxes(9), Scores=given(-np.arange(9.0)))
