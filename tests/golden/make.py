"""Makes the values that the examples are compared with: NumPy only, nothing of this project.

    pip install numpy && python3 tests/golden/make.py

For each entry of each example, tests/golden/FILE/ENTRY/ holds the inputs as NAME.npy and the outputs as
expected/NAME.npy. Formulas are written as loops or whole-array NumPy in float64, on purpose unlike the Tile source.
The digits are made by train_digits.py.
"""

import pathlib

import numpy as np

HERE = pathlib.Path(__file__).parent


def save(entry, inputs, outputs):
    """Writes one case. Outputs are stored as float32 where they are float64: tests compare to float rounding."""
    folder = HERE / entry
    (folder / "expected").mkdir(parents=True, exist_ok=True)
    for name, array in inputs.items():
        np.save(folder / f"{name}.npy", np.array(array, order="C"))
    for name, array in outputs.items():
        array = np.asarray(array)
        if array.dtype == np.float64:
            array = array.astype(np.float32)
        if array.dtype == np.int64:
            array = array.astype(np.int32)
        np.save(folder / "expected" / f"{name}.npy", np.array(array, order="C"))


def floats(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def integers(seed, low, high, *shape, dtype=np.int32):
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


def f64(*arrays):
    return [a.astype(np.float64) for a in arrays]


def convolve(image, kernel, sizes, stride=(1, 1), dilation=(1, 1), padding=(0, 0)):
    """N, H, W, CI by KH, KW, CI, CO, by visiting every output place and every kernel place."""
    image, kernel = f64(image, kernel)
    n, h, w, _ = image.shape
    kh, kw, _, co = kernel.shape
    out = np.zeros((n, *sizes, co))
    for y in range(sizes[0]):
        for x in range(sizes[1]):
            for j in range(kh):
                for i in range(kw):
                    row = y * stride[0] + j * dilation[0] - padding[0]
                    column = x * stride[1] + i * dilation[1] - padding[1]
                    if 0 <= row < h and 0 <= column < w:
                        out[:, y, x] += image[:, row, column] @ kernel[j, i]
    return out


def pool(x, sizes, window, stride, padding, reduce):
    """Windows of N, H, W, C images, clipped to the image, through `reduce`."""
    n, h, w, c = x.shape
    out = np.zeros((n, *sizes, c), x.dtype if reduce is np.max else np.float64)
    for y in range(sizes[0]):
        for i in range(sizes[1]):
            top, left = y * stride - padding, i * stride - padding
            part = x[:, max(top, 0) : top + window, max(left, 0) : left + window]
            out[:, y, i] = reduce(part, axis=(1, 2))
    return out


def matmul():
    a, b = floats(1, 37, 53), floats(2, 53, 29)
    save("matmul/matmul", {"A": a, "B": b}, {"C": np.matmul(*f64(a, b))})


def conv2d():
    image, kernel = floats(3, 2, 9, 11, 3), floats(4, 3, 5, 3, 4)
    both = {"Image": image, "Kernel": kernel}
    save("conv2d/conv2d", both, {"Out": convolve(image, kernel, (7, 7))})
    save("conv2d/conv2d_padded", both, {"Out": convolve(image, kernel, (9, 11), padding=(1, 2))})
    save("conv2d/conv2d_strided", both, {"Out": convolve(image, kernel, (4, 4), stride=(2, 2))})
    save("conv2d/conv2d_dilated", both, {"Out": convolve(image, kernel, (5, 3), dilation=(2, 2))})
    out = np.zeros((2, 19, 25, 4))
    for y in range(9):
        for x in range(11):
            out[:, 2 * y : 2 * y + 3, 2 * x : 2 * x + 5] += np.einsum("nc,jico->njio", *f64(image[:, y, x], kernel))
    save("conv2d/conv2d_transposed", both, {"Out": out})
    narrow = floats(5, 3, 3, 3)
    out = np.stack([convolve(image[..., c : c + 1], narrow[:, :, c, None, None], (7, 9))[..., 0] for c in range(3)], -1)
    save("conv2d/conv2d_depthwise", {"Image": image, "Kernel": narrow}, {"Out": out})


def pooling():
    x = integers(6, -100, 100, 2, 7, 5, 3)
    save("max_pool/max_pool", {"X": x}, {"Out": pool(x, (3, 2), 2, 2, 0, np.max)})
    save("max_pool/max_pool_ceil", {"X": x}, {"Out": pool(x, (4, 3), 2, 2, 0, np.max)})
    negative = -np.abs(floats(7, 2, 7, 5, 3)) - 1
    save("max_pool/max_pool_padded", {"X": negative}, {"Out": pool(negative, (4, 3), 3, 2, 1, np.max)})
    x = floats(8, 2, 7, 6, 3)
    save("average_pool/average_pool", {"X": x}, {"Out": pool(x, (3, 3), 2, 2, 0, np.mean)})
    save("average_pool/average_pool_padded", {"X": x}, {"Out": pool(x, (4, 3), 3, 2, 1, np.mean)})


def softmax(x):
    (x,) = f64(x)
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def rows():
    x = floats(9, 13, 37) * 30
    save("softmax/softmax", {"X": x}, {"Y": softmax(x)})
    x, gain, bias = floats(10, 11, 35) * 3 + 5, floats(11, 35), floats(12, 35)
    wide, = f64(x)
    y = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5) * gain + bias
    save("layer_norm/layer_norm", {"X": x, "Gain": gain, "Bias": bias}, {"Y": y})
    x = integers(13, -9, 10, 19, 3)
    total = np.cumsum(x, axis=0)
    save("cumulative_sum/cumulative_sum", {"X": x}, {"Y": total})
    save("cumulative_sum/cumulative_sum_reversed", {"X": x}, {"Y": total[-1] - total + x})
    save("cumulative_sum/cumulative_sum_exclusive", {"X": x}, {"Y": total - x})


def sobel():
    image = np.random.default_rng(14).random((13, 17)).astype(np.float32)
    kernel = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]], np.float64)
    windows = np.lib.stride_tricks.sliding_window_view(image.astype(np.float64), (3, 3))
    gx, gy = np.einsum("yxji,ji->yx", windows, kernel), np.einsum("yxji,ij->yx", windows, kernel)
    save("sobel/sobel", {"Image": image}, {"Magnitude": np.hypot(gx, gy)})


def k_means():
    points, centroids = floats(15, 41, 3), floats(16, 5, 3)
    centroids[4] = 100  # far from every point: keeps its place
    distances = np.linalg.norm(f64(points)[0][:, None] - f64(centroids)[0][None], axis=2)
    nearest = distances.argmin(axis=1)
    ordered = np.sort(distances, axis=1)
    assert (ordered[:, 1] - ordered[:, 0]).min() > 1e-4, "a point between two centroids"
    moved = centroids.astype(np.float64)
    for k in range(len(centroids)):
        if (nearest == k).any():
            moved[k] = points[nearest == k].astype(np.float64).mean(axis=0)
    save("k_means/k_means", {"Points": points, "Centroids": centroids}, {"Nearest": nearest, "Moved": moved})


def n_body():
    position, velocity = floats(17, 23, 3), floats(18, 23, 3) * np.float32(0.1)
    mass = np.random.default_rng(19).random(23).astype(np.float32)
    step = np.array(0.05, np.float32)
    p, v, m = f64(position, velocity, mass)
    acceleration = np.zeros_like(p)
    for i in range(len(p)):
        for j in range(len(p)):
            d = p[j] - p[i]
            acceleration[i] += m[j] * d / (d @ d + np.float32(0.01)) ** 1.5
    v = v + float(step) * acceleration
    save(
        "n_body/n_body",
        {"Position": position, "Velocity": velocity, "Mass": mass, "TimeStep": step},
        {"NextPosition": p + float(step) * v, "NextVelocity": v},
    )


def mandelbrot():
    def counts(re, im):
        count = np.zeros((im.shape[0], re.shape[0]), np.int32)
        for y in range(im.shape[0]):
            for x in range(re.shape[0]):
                z, c = 0j, complex(re[x], im[y, 0])
                for _ in range(16):
                    if abs(z) > 2:
                        break
                    z, count[y, x] = z * z + c, count[y, x] + 1
        return count

    re = np.linspace(-2.1, 0.6, 31).astype(np.float32)
    im = np.linspace(-1.15, 1.2, 23).astype(np.float32)[:, None]
    expected = counts(re.astype(np.float64), im.astype(np.float64))
    for dr, di in [(1e-5, 0), (-1e-5, 0), (0, 1e-5), (0, -1e-5)]:
        assert (counts(re + dr, im + di) == expected).all(), "a point so near the border that rounding decides"
    save("mandelbrot/mandelbrot", {"Re": re, "Im": im}, {"Count": expected})


def tutorial():
    x = floats(20, 7, 11)
    (wide,) = f64(x)
    save("tutorial/sum_rows", {"X": x}, {"Out": wide.sum(axis=0)})
    save("tutorial/max_columns", {"X": x}, {"Out": x.max(axis=1)})
    cube = floats(21, 3, 5, 7)
    save("tutorial/global_min", {"X": cube}, {"Out": cube.min()})
    save("tutorial/product_rows", {"X": x}, {"Out": wide.prod(axis=0)})
    save("tutorial/mean_rows", {"X": x}, {"Out": wide.mean(axis=0)})
    save("tutorial/mean_axes", {"X": cube}, {"Out": cube.astype(np.float64).mean(axis=(0, 2), keepdims=True)})
    line = floats(22, 13)
    pairs = [line[i : i + 2].max() for i in range(0, 13, 2)]
    save("tutorial/pool_floor", {"X": line}, {"Out": np.array(pairs[:6])})
    save("tutorial/pool_ceil", {"X": line}, {"Out": np.array(pairs)})
    even = np.where(np.arange(11) % 2 == 0, wide.sum(axis=0), 0)
    save("tutorial/skip", {"X": x}, {"Out": even})
    otherwise = floats(23, 11)
    even = np.where(np.arange(11) % 2 == 0, wide.sum(axis=0), otherwise)
    save("tutorial/skip_default", {"X": x, "Otherwise": otherwise}, {"Out": even})
    total = np.cumsum(line.astype(np.float64))
    save("tutorial/cumulative_sum", {"X": line}, {"Out": total})
    save("tutorial/cumulative_sum_forwards", {"X": line}, {"Out": total})
    a, b = integers(24, -9, 10, 5, 7), integers(25, -9, 10, 7, 3)
    save("tutorial/matmul", {"A": a, "B": b}, {"C": a @ b})
    signal, kernel = floats(26, 2, 15, 3), floats(27, 4, 3, 5)
    windows = np.lib.stride_tricks.sliding_window_view(signal.astype(np.float64), 4, axis=1)
    save("tutorial/conv1d", {"X": signal, "Kernel": kernel}, {"Out": np.einsum("nxck,kco->nxo", windows, kernel)})
    image, kernel = floats(28, 1, 9, 10, 2), floats(29, 3, 2, 2, 3)
    out = convolve(image, kernel, (5, 7), dilation=(2, 3))
    save("tutorial/conv2d_dilated", {"X": image, "Kernel": kernel}, {"Out": out})
    image, kernel = floats(30, 2, 11, 13, 2, 3), floats(31, 3, 4, 2, 3, 2)
    groups = [
        convolve(image[..., g, :], kernel[:, :, g], (4, 4), stride=(2, 3), dilation=(3, 2), padding=(1, 2))
        for g in range(2)
    ]
    save("tutorial/conv2d_everything", {"X": image, "Kernel": kernel}, {"Out": np.stack(groups, axis=3)})
    save("tutorial/repeat", {"X": line}, {"Out": np.repeat(line, 2)})
    save("tutorial/spread", {"X": line}, {"Out": np.stack([line, 0 * line], axis=1).reshape(-1)})
    square = floats(32, 9, 9)
    save("tutorial/diagonal", {"X": square}, {"Out": np.diagonal(square)})
    save("tutorial/transpose", {"X": x}, {"Out": x.T})
    x, v = integers(33, 0, 20, 9, 17), integers(34, 0, 20, 17)
    save("tutorial/any_equal", {"X": x, "V": v}, {"Out": (x == v).any(axis=1)})
    keys, values, asked = integers(35, 0, 6, 19), floats(36, 19, 3), integers(37, 0, 6, 8)
    out = np.array([values[keys == a].astype(np.float64).sum(axis=0) for a in asked])
    save("tutorial/lookup", {"Keys": keys, "Values": values, "Asked": asked}, {"Out": out})


for case in (matmul, conv2d, pooling, rows, sobel, k_means, n_body, mandelbrot, tutorial):
    case()
