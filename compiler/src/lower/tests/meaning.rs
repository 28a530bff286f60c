//! Random contractions mean what the language says: for every assignment of integers to the index variables for which
//! every index is an integer in range and every constraint holds, a term at its place.

use proptest::prelude::*;

use super::*;
use crate::interpret::run;
use crate::tensor::Tensor;

const NAMES: [&str; 3] = ["i", "j", "k"];
/// A constraint keeps every variable in `-REACH..=REACH`, so that all assignments can be tried.
const REACH: i64 = 5;

/// `(a*i + b*j + c*k + d) / e`
#[derive(Clone, Debug)]
struct Polynomial {
    factors: [i64; 3],
    constant: i64,
    divisor: i64,
}

impl Polynomial {
    fn text(&self) -> String {
        let terms: String =
            NAMES.iter().zip(self.factors).map(|(name, factor)| format!("{factor}*{name} + ")).collect();
        format!("({terms}{}) / {}", self.constant, self.divisor)
    }

    fn numerator(&self, point: [i64; 3]) -> i64 {
        self.constant + self.factors.iter().zip(point).map(|(a, x)| a * x).sum::<i64>()
    }

    /// The value where it is an integer in `0..size`.
    fn position(&self, point: [i64; 3], size: usize) -> Option<usize> {
        let value = self.numerator(point);
        let whole = value % self.divisor == 0 && (0..size as i64).contains(&(value / self.divisor));
        whole.then_some((value / self.divisor) as usize)
    }
}

fn polynomial() -> impl Strategy<Value = Polynomial> {
    (prop::array::uniform3(-2..3i64), -2..3i64, prop::sample::select(vec![1, 1, 1, 2, 3]))
        .prop_map(|(factors, constant, divisor)| Polynomial { factors, constant, divisor })
}

/// An index polynomial for each axis, and its size.
type Place = Vec<(Polynomial, usize)>;

fn place(ranks: std::ops::Range<usize>) -> impl Strategy<Value = Place> {
    prop::collection::vec((polynomial(), 1..6usize), ranks)
}

fn offset(place: &Place, point: [i64; 3]) -> Option<usize> {
    place.iter().try_fold(0, |offset, (polynomial, size)| Some(offset * size + polynomial.position(point, *size)?))
}

fn sizes(place: &Place) -> Vec<usize> {
    place.iter().map(|(_, size)| *size).collect()
}

fn indices(place: &Place) -> String {
    place.iter().map(|(polynomial, _)| polynomial.text()).collect::<Vec<_>>().join(", ")
}

proptest! {
    #[test]
    fn contractions_mean_what_the_language_says(
        (output, a, b) in (place(0..3), place(1..3), place(1..3)),
        constraints in prop::collection::vec((polynomial(), 1..5i64), 0..3),
    ) {
        let bounds: String = constraints.iter().map(|(p, bound)| format!(", {} < {bound}", p.text())).collect();
        let reach = "i + 5 < 11, j + 5 < 11, k + 5 < 11";
        let shape = sizes(&output).iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        let source = format!(
            "function (A, B) -> (O) {{ O[{}: {shape}] = +(A[{}] * B[{}]), {reach}{bounds}; }}",
            indices(&output), indices(&a), indices(&b),
        );
        let mut given = Vec::new();
        let mut bindings = Bindings::default();
        for (name, place, factor) in [("A", &a, 3), ("B", &b, 5)] {
            let ty = TensorType::new(DType::I32, sizes(place));
            let values = (0..ty.elements()).map(|n| crate::dtype::Scalar::i32(1 + (n as i32 * factor) % 7));
            given.push((name, Tensor::from_scalars(ty.clone(), values).unwrap()));
            bindings.inputs.insert(name.to_owned(), Binding::Tensor(ty));
        }
        let mut expected = vec![0; sizes(&output).iter().product()];
        let mut terms = 0;
        let reach = || -REACH..=REACH;
        for point in reach().flat_map(|i| reach().flat_map(move |j| reach().map(move |k| [i, j, k]))) {
            let holds = |(p, bound): &(Polynomial, i64)| (0..bound * p.divisor).contains(&p.numerator(point));
            if let (Some(o), Some(x), Some(y)) = (offset(&output, point), offset(&a, point), offset(&b, point))
                && constraints.iter().all(holds)
            {
                expected[o] += given[0].1.get(x).to_i64() * given[1].1.get(y).to_i64();
                terms += 1;
            }
        }
        let program = tile_lang::check(&source).program.unwrap();
        match lower(&program, None, &bindings) {
            Ok(Network { graph, .. }) => {
                prop_assert_eq!(graph.verify(), Ok(()));
                let found = run(&graph, &given).unwrap();
                prop_assert_eq!(found[0].1.scalars().map(|s| s.to_i64()).collect::<Vec<_>>(), expected, "{}", source);
            }
            Err(errors) => match errors[0].code {
                "E0218" => prop_assert_eq!(terms, 0, "{}", source),
                code => prop_assert!(false, "{}: {}", code, source),
            },
        }
    }
}
