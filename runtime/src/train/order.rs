//! The order of samples in an epoch, and the samples that are kept back for validation.

use tile_compiler::dtype::Scalar;

use super::dataset::{ColumnRole, Dataset, numbers};
use crate::error::Error;
use crate::splitmix::SplitMix64;

/// Returns the numbers below `count`, shuffled by a seed and the epoch's number.
pub(super) fn order(count: usize, shuffled: Option<(u64, u64)>) -> Result<Vec<usize>, Error> {
    let mut order = numbers(count)?;
    if let Some((seed, epoch)) = shuffled {
        shuffle(&mut order, &mut SplitMix64::stream(seed, epoch));
    }
    Ok(order)
}

/// The numbers of the samples to train on and of those to validate on, each in ascending order.
pub(super) struct Split {
    pub trained: Vec<usize>,
    pub kept: Vec<usize>,
}

impl Split {
    /// Keeps back the last `kept` samples.
    pub fn last(samples: usize, kept: usize) -> Result<Split, Error> {
        let mut trained = numbers(samples)?;
        let kept = trained.split_off(samples.saturating_sub(kept));
        Ok(Split { trained, kept })
    }

    /// Keeps back `kept` random samples. Each class has its share of them, rounded up or down, if
    /// the data have one target, an integer, that is known without reading samples. A class of few
    /// samples leaves one to training, for one more of a large class.
    ///
    /// The samples are shuffled and sorted by class. Then samples at equal distances are kept.
    pub fn stratified(data: &dyn Dataset, kept: usize, seed: u64) -> Result<Split, Error> {
        // The shuffle of no epoch: epochs count from 0.
        let mut random = SplitMix64::stream(seed, u64::MAX);
        let mut samples = numbers(data.len())?;
        shuffle(&mut samples, &mut random);
        let classes = classes(data).filter(|classes| classes.len() == data.len());
        if let Some(classes) = &classes {
            samples.sort_by_key(|&sample| classes[sample]);
        }
        let count = data.len() as u128;
        let phase = random.below(count.max(1));
        // The number of kept samples before a position.
        let before = |position: usize| (position as u128 * kept as u128 + phase) / count.max(1);
        let mut is_kept = vec![false; data.len()];
        for (position, &sample) in samples.iter().enumerate() {
            is_kept[sample] = before(position + 1) > before(position);
        }
        if let Some(classes) = &classes {
            leave_each_class(&samples, classes, &mut is_kept);
        }
        let (kept, trained) = (0..data.len()).partition(|&sample| is_kept[sample]);
        Ok(Split { trained, kept })
    }
}

/// Lets training have a sample of each class, in exchange for one of a class with more, the largest
/// first. `samples` are sorted by class.
fn leave_each_class(samples: &[usize], classes: &[i64], is_kept: &mut [bool]) {
    let mut groups: Vec<&[usize]> =
        samples.chunk_by(|&one, &other| classes[one] == classes[other]).collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.len()));
    // All samples but one that training has of each class.
    let left = |group: &&[usize]| {
        group.iter().copied().filter(|&sample| !is_kept[sample]).skip(1).collect::<Vec<_>>()
    };
    let spare: Vec<usize> = groups.iter().flat_map(left).collect();
    let taken = groups
        .iter()
        .filter(|group| group.iter().all(|&sample| is_kept[sample]))
        .map(|group| group[0]);
    let taken: Vec<usize> = taken.collect();
    for (spare, taken) in spare.into_iter().zip(taken) {
        (is_kept[spare], is_kept[taken]) = (true, false);
    }
}

/// Returns the class of each sample, if there is one integer target.
fn classes(data: &dyn Dataset) -> Option<Vec<i64>> {
    let columns = data.columns();
    let mut targets =
        columns.iter().enumerate().filter(|(_, column)| column.role == ColumnRole::Target);
    let (Some((target, column)), None) = (targets.next(), targets.next()) else { return None };
    if column.ty.dtype.is_float() || column.ty.elements() != 1 {
        return None;
    }
    Some(data.whole_column(target)?.scalars().map(Scalar::to_i64).collect())
}

/// Shuffles by Fisher and Yates.
fn shuffle(numbers: &mut [usize], random: &mut SplitMix64) {
    for last in (1..numbers.len()).rev() {
        numbers.swap(last, random.index(last + 1));
    }
}

#[cfg(test)]
mod tests {
    use tile_compiler::dtype::DType;
    use tile_compiler::tensor::{Tensor, TensorType};

    use super::super::dataset::Arrays;
    use super::*;

    #[test]
    fn an_epoch_has_each_sample_once_and_an_order_of_its_own() {
        let (first, again, second) =
            (order(100, Some((7, 0))), order(100, Some((7, 0))), order(100, Some((7, 1))));
        let (first, again, second) = (first.unwrap(), again.unwrap(), second.unwrap());
        assert_eq!(first, again);
        assert_ne!(first, second);
        for mut order in [first, second] {
            order.sort_unstable();
            assert_eq!(order, (0..100).collect::<Vec<_>>());
        }
        assert_eq!(order(3, None).unwrap(), [0, 1, 2]);
        assert!(order(usize::MAX, None).is_err());
    }

    /// Returns samples with these classes.
    fn labelled(classes: &[i32]) -> Arrays {
        let y = Tensor::from_scalars(
            TensorType::new(DType::I32, [classes.len()]),
            classes.iter().map(|&class| Scalar::i32(class)),
        );
        Arrays::new(
            Tensor::from_f32([classes.len()], &vec![0.0; classes.len()]).unwrap(),
            y.unwrap(),
        )
        .unwrap()
    }

    proptest::proptest! {
        #[test]
        fn each_class_is_kept_in_its_share(
            classes in proptest::collection::vec(-2..3i32, 1..200),
            share in 0.0..1.0f64,
            seed: u64,
        ) {
            let count = (classes.len() as f64 * share) as usize;
            let split = Split::stratified(&labelled(&classes), count, seed).unwrap();
            assert_eq!(split.kept.len(), count);
            let mut all = [&split.trained[..], &split.kept[..]].concat();
            assert!(split.trained.is_sorted() && split.kept.is_sorted());
            all.sort_unstable();
            assert_eq!(all, (0..classes.len()).collect::<Vec<_>>());
            for class in -2..3 {
                let size = classes.iter().filter(|&&other| other == class).count() as f64;
                let kept = split.kept.iter().filter(|&&sample| classes[sample] == class).count() as f64;
                let exact = size * count as f64 / classes.len() as f64;
                // Each of the five classes may take a sample from the largest.
                assert!((kept - exact).abs() < 5.0, "{kept} of {size} in class {class}, and not {exact}");
                let has_room = count + 5 <= classes.len();
                assert!(!has_room || size == 0.0 || kept < size, "nothing of class {class} is left");
            }
        }
    }

    #[test]
    fn a_split_depends_on_the_seed_alone() {
        let data = labelled(&[0; 100]);
        let kept = |seed| Split::stratified(&data, 10, seed).unwrap().kept;
        assert_eq!(kept(1), kept(1));
        assert_ne!(kept(1), kept(2));
        assert_ne!(kept(1), (90..100).collect::<Vec<_>>());
        let floats = Tensor::from_f32([5, 1], &[0.0; 5]).unwrap();
        let floats = Arrays::new(floats.clone(), floats).unwrap();
        assert_eq!(Split::stratified(&floats, 2, 0).unwrap().kept.len(), 2);
        let Split { trained, kept } = Split::last(5, 2).unwrap();
        assert_eq!((&trained[..], &kept[..]), (&[0, 1, 2][..], &[3, 4][..]));
    }
}
