use super::*;
use crate::cpu::vector::emulated::Emulated;
use crate::cpu::vector::quad::Quad;
use proptest::prelude::*;
use std::sync::Mutex;

/// Returns small integers, so that every order of summation gives the same float.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7 + seed * 13) % 11) as f32 - 5.0).collect()
}

fn product(size: Size, a: &impl Pack<f32>, b: &impl Pack<f32>) -> Vec<f32> {
    let c = Mutex::new(vec![f32::NAN; size.batch * size.m * size.n]);
    gemm(size, a, b, &|tile: Tile<f32>| {
        let mut c = c.lock().unwrap();
        for (row, sums) in tile.iter() {
            let to =
                &mut c[(tile.batch * size.m + row) * size.n + tile.columns.start..][..sums.len()];
            assert!(to.iter().all(|x| x.is_nan()), "stored twice");
            to.copy_from_slice(sums);
        }
    });
    c.into_inner().unwrap()
}

/// Multiplies with the right operand packed ahead, and not, in panels of every instruction set.
fn both(size: Size, a: &impl Pack<f32>, b: &impl Pack<f32>) -> Vec<f32> {
    let now = product(size, a, b);
    Emulated::each(|| {
        assert_eq!(product(size, a, b), now);
        let mut ahead = vec![0.0; now.len()];
        // SAFETY: rows and batches follow each other, and there is one product.
        let store = unsafe { Rows::new(&mut ahead, size.m * size.n, size.n) };
        let packed = Packed::new(size, b, None);
        let right: Right<Gather<f32>> = Right::Packed(&packed);
        super::product(size, a, right, &store);
        assert_eq!(now, ahead);
    });
    now
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Tests any size, either layout of each operand, and batches.
    #[test]
    fn equals_the_definition(batch in 1usize..3, m in 1usize..70, n in 1usize..100, k in 0usize..900, a_by_k: bool, b_by_k: bool) {
        let size = Size::usual(batch, m, n, k, 4);
        let strides = |by_k: bool, outer: usize| if by_k { (k as isize, 1) } else { (1, outer as isize) };
        let (a, b) = (numbers(batch * m * k, 1), numbers(batch * n * k, 2));
        let places = |outer: usize, by_k| {
            let (outer_stride, k_stride) = strides(by_k, outer);
            let batch = Axis::strided(batch, (outer * k) as isize);
            Places::new(batch, Axis::strided(outer, outer_stride), Axis::strided(k, k_stride))
        };
        let (of_a, of_b) = (places(m, a_by_k), places(n, b_by_k));
        let right = Gather::new(&b, 0, &of_b, &[]);
        let got = both(size, &Gather::new(&a, 0, &of_a, &[]), &right);
        for (i, got) in got.iter().enumerate() {
            let (batch, row, column) = (i / n / m, i / n % m, i % n);
            let at = |data: &[f32], outer: usize, o: usize, p: usize, by_k| {
                let (outer_stride, k_stride) = strides(by_k, outer);
                data[batch * outer * k + o * outer_stride as usize + p * k_stride as usize]
            };
            let want: f32 = (0..k).map(|p| at(&a, m, row, p, a_by_k) * at(&b, n, column, p, b_by_k)).sum();
            prop_assert_eq!(*got, want);
        }
    }
}

/// Packed panels serve products with fewer columns and terms.
#[test]
fn the_first_columns_and_terms() {
    for (n, k) in [(100, 900), (64, 512), (129, 385)] {
        let (m, whole) = (37, Size::usual(1, 37, n, k, 4));
        let (a, b) = (numbers(m * k, 1), numbers(n * k, 2));
        let (left, right) =
            (Places::matrix((m, k as isize), (k, 1)), Places::matrix((n, 1), (k, n as isize)));
        for (columns, terms) in [(n, k), (n, k / 2), (n / 2, k), (1, 1), (n - 1, k - 1), (17, 393)]
        {
            let (columns, terms) = (columns.min(n), terms.min(k));
            let size = Size { n: columns, k: terms, ..whole };
            Emulated::each(|| {
                let packed = Packed::new(whole, &Gather::new(&b, 0, &right, &[]), None);
                let mut c = vec![f32::NAN; m * columns];
                // SAFETY: rows follow each other, and there is one product.
                let store = unsafe { Rows::new(&mut c, 0, columns) };
                let right: Right<Gather<f32>> = Right::Packed(&packed);
                super::product(size, &Gather::new(&a, 0, &left, &[]), right, &store);
                for (i, got) in c.iter().enumerate() {
                    let (row, column) = (i / columns, i % columns);
                    let term = |p: usize| a[row * k + p] * b[p * n + column];
                    assert_eq!(*got, (0..terms).map(term).sum::<f32>(), "{n} {k} {size:?}");
                }
            });
        }
    }
}

/// A sum of no terms is 0.
#[test]
fn no_terms() {
    let places =
        |outer| Places::new(Axis::strided(2, 0), Axis::strided(outer, 0), Axis::strided(0, 1));
    let (left, right) = (places(3), places(40));
    let size = Size::usual(2, 3, 40, 0, 4);
    assert_eq!(
        both(size, &Gather::new(&[], 0, &left, &[]), &Gather::new(&[], 0, &right, &[])),
        [0.0; 240]
    );
}

/// A padded convolution is a product whose left operand is gathered under guards.
#[test]
fn strided_convolution() {
    equals_its_definition(5, 2, [|tap| tap - 1; 2], Layout::KContiguous);
}

/// As for the gradient of an image: later terms belong to earlier pixels, with and without
/// channels.
#[test]
fn mirrored_convolution() {
    equals_its_definition(5, 1, [|tap| 1 - tap; 2], Layout::KContiguous);
    equals_its_definition(1, 1, [|tap| 1 - tap; 2], Layout::RowContiguous);
}

/// The padding is so wide that no pixel of any line is read.
#[test]
fn convolution_beside_the_image() {
    equals_its_definition(5, 1, [|tap| tap - 1, |tap| tap - 21], Layout::KContiguous);
    equals_its_definition(5, 1, [|tap| tap - 1, |tap| tap + 17], Layout::KContiguous);
}

/// Taps so far apart that most of them read only padding, which is left out.
#[test]
fn dilated_convolution() {
    for inputs in [5, 18] {
        equals_its_definition(
            inputs,
            1,
            [|tap| 8 * (tap - 1), |tap| 12 * (tap - 1)],
            Layout::KContiguous,
        );
        equals_its_definition(
            inputs,
            2,
            [|tap| 7 * (tap - 1), |tap| 16 * (1 - tap)],
            Layout::KContiguous,
        );
    }
    equals_its_definition(1, 1, [|tap| 8 * (tap - 1), |tap| 12 * (tap - 1)], Layout::RowContiguous);
}

/// Checks a convolution. `line` and `pixel` give a tap's distance from an output's place.
fn equals_its_definition(
    inputs: usize,
    stride: usize,
    [line, pixel]: [fn(isize) -> isize; 2],
    layout: Layout,
) {
    let (height, width, outputs) = (9usize, 17usize, 6usize);
    let (rows, columns) = (height.div_ceil(stride), width.div_ceil(stride));
    let image = numbers(height * width * inputs, 3);
    let weights = numbers(9 * inputs * outputs, 4);
    let pixels = || {
        (0..rows)
            .flat_map(|y| (0..columns).map(move |x| ((y * stride) as isize, (x * stride) as isize)))
    };
    let taps = || {
        (0..3).flat_map(|y| {
            (0..3).flat_map(move |x| (0..inputs as isize).map(move |c| (line(y), pixel(x), c)))
        })
    };
    // The guards 0 <= y, 0 <= x, y < height, x < width.
    let inside = |places: Vec<(isize, isize)>| -> Vec<Vec<isize>> {
        let guard = |of: fn(&(isize, isize)) -> isize| places.iter().map(of).collect();
        vec![guard(|p| p.0), guard(|p| p.1), guard(|p| -p.0), guard(|p| -p.1)]
    };
    let (row, pixel) = ((width * inputs) as isize, inputs as isize);
    let left = Places::new(
        Axis::new(
            vec![0],
            vec![vec![0], vec![0], vec![height as isize - 1], vec![width as isize - 1]],
        ),
        Axis::new(pixels().map(|(y, x)| y * row + x * pixel).collect(), inside(pixels().collect())),
        Axis::new(
            taps().map(|(y, x, c)| y * row + x * pixel + c).collect(),
            inside(taps().map(|t| (t.0, t.1)).collect()),
        ),
    );
    let coordinate = |stride: usize, within: Range<isize>, outer: Vec<isize>, k: Vec<isize>| {
        Coordinate { stride, counts: within.clone(), within, batch: vec![0], outer, k }
    };
    let of_pixels = |of: fn((isize, isize)) -> isize| pixels().map(of).collect();
    let of_taps = |of: fn((isize, isize, isize)) -> isize| taps().map(of).collect();
    let mut coordinates = vec![
        coordinate(inputs, 0..width as isize, of_pixels(|p| p.1), of_taps(|t| t.1)),
        coordinate(row as usize, 0..height as isize, of_pixels(|p| p.0), of_taps(|t| t.0)),
        coordinate(1, isize::MIN..isize::MAX, vec![0; rows * columns], of_taps(|t| t.2)),
    ];
    coordinates.truncate(if inputs > 1 { 3 } else { 2 });
    let window = Window::new(coordinates, vec![columns, rows]).unwrap();
    let blocks = window.blocks(3, 6).len();
    assert_eq!((window.layout(), window.run(), blocks), (layout, columns, rows.div_ceil(2)));
    let copied = Places { window: Some((window, 0)), ..left.clone() };
    let right = Places::matrix((outputs, 1), (9 * inputs, outputs as isize));
    let (left, right) = (Gather::new(&image, 0, &left, &[]), Gather::new(&weights, 0, &right, &[]));
    let size = Size::usual(1, rows * columns, outputs, 9 * inputs, 4);
    let got = both(size, &left, &right);
    assert_eq!(got, both(size, &Gather::new(&image, 0, &copied, &[]), &right));
    for (i, (y, x)) in pixels().enumerate() {
        for out in 0..outputs {
            let term = |(k, (dy, dx, c)): (usize, (isize, isize, isize))| {
                let (y, x) = (y + dy, x + dx);
                let inside = (0..height as isize).contains(&y) && (0..width as isize).contains(&x);
                if inside {
                    image[(y * row + x * pixel + c) as usize] * weights[k * outputs + out]
                } else {
                    0.0
                }
            };
            assert_eq!(got[i * outputs + out], taps().enumerate().map(term).sum::<f32>());
        }
    }
}

/// Every instruction set gives the same sums of small integers.
#[test]
fn instruction_sets() {
    let size = Size::usual(1, 37, 75, 400, 4);
    let (a, b) = (numbers(size.m * size.k, 1), numbers(size.n * size.k, 2));
    let left = Places::matrix((size.m, size.k as isize), (size.k, 1));
    let right = Places::matrix((size.n, 1), (size.k, size.n as isize));
    let (left, right) = (Gather::new(&a, 0, &left, &[]), Gather::new(&b, 0, &right, &[]));
    let want = product(size, &left, &right);
    for kernels in kernel::every_f32() {
        let mut got = vec![0.0; size.m * size.n];
        // SAFETY: rows follow each other, and there is one product of one batch.
        let store = unsafe { Rows::new(&mut got, 0, size.n) };
        let b = Right::Now(&right);
        BatchProduct { size, kernels, a: &left, b, store: &store, batch: 0, threads: 1 }.run();
        assert_eq!(got, want);
    }
}

/// Products of bytes are exact with the kernels of every instruction set, also where sums of 16
/// bits would saturate, and for any number of terms.
#[test]
fn quads() {
    quads_of::<false>();
    quads_of::<true>();
}

fn quads_of<const SIGNED: bool>() {
    for (m, n, k) in [(1, 1, 1), (3, 17, 2), (15, 33, 5), (29, 70, 203), (7, 16, 1600), (2, 9, 4)] {
        let byte = |i: usize| if i.is_multiple_of(3) { 255 } else { (i * 37 % 256) as u8 };
        let a: Vec<u8> =
            (0..m * k).map(|i| if SIGNED { byte(i) ^ 0x80 } else { byte(i) }).collect();
        let b: Vec<u8> =
            (0..n * k).map(|i| if SIGNED { byte(i) } else { byte(i) ^ 0x80 }).collect();
        let size = Size { k: k.div_ceil(4), ..Size::usual(1, m, n, k, 1) };
        let left = Places::matrix((m, k as isize), (k, 1));
        let right = Places::matrix((n, 1), (k, n as isize));
        let left = Quads::new(&a, 0, &left, &[]);
        let right = Quads::new(&b, 0, &right, &[]);
        let number = |x: u8, signed| if signed { i32::from(x as i8) } else { i32::from(x) };
        let term = |i: usize, j: usize, p: usize| {
            number(a[i * k + p], SIGNED) * number(b[p * n + j], !SIGNED)
        };
        for kernels in kernel::every_quad::<SIGNED>() {
            let mut got = vec![Quad::<SIGNED>(0); m * n];
            // SAFETY: rows follow each other, and there is one product of one batch.
            let store = unsafe { Rows::new(&mut got, 0, n) };
            let b = Right::Now(&right);
            BatchProduct { size, kernels, a: &left, b, store: &store, batch: 0, threads: 1 }.run();
            for (place, sum) in got.iter().enumerate() {
                assert_eq!(sum.0, (0..k).map(|p| term(place / n, place % n, p)).sum::<i32>());
            }
        }
    }
}

/// More columns than one task takes, in f64.
#[test]
fn wide() {
    Emulated::each(wide_product);
}

fn wide_product() {
    let (m, n, k) = (5, 5000, 3);
    let a: Vec<f64> = (0..m * k).map(|i| i as f64).collect();
    let b: Vec<f64> = (0..n * k).map(|i| i as f64).collect();
    let mut c = vec![0.0; m * n];
    let (left, right) = (Places::matrix((m, 3), (k, 1)), Places::matrix((n, 1), (k, n as isize)));
    let (left, right) = (Gather::new(&a, 0, &left, &[]), Gather::new(&b, 0, &right, &[]));
    // SAFETY: rows follow each other, and there is one product of one batch.
    let store = unsafe { Rows::new(&mut c, 0, n) };
    gemm(Size::usual(1, m, n, k, 8), &left, &right, &store);
    for (i, c) in c.iter().enumerate() {
        assert_eq!(*c, (0..k).map(|p| a[i / n * k + p] * b[p * n + i % n]).sum::<f64>());
    }
}
