//! Conversion of a file's sparse tensors to dense ones.
//!
//! Invariant: all dense tensors of a file take at most [`MOST`] bytes, whatever sizes the file
//! claims.

use super::model::title;
use super::proto::{Graph, Node, Sparse, Tensor};
use super::tensor;
use crate::dtype::DType;

/// The most bytes of dense tensors within a file, which itself is shorter than 2 GiB.
const MOST: usize = 1 << 31;

/// A converter of sparse tensors.
pub struct Densifier {
    /// The bytes remaining of [`MOST`].
    left: usize,
}

impl Densifier {
    pub fn new() -> Densifier {
        Densifier { left: MOST }
    }

    /// Converts the initializers of a graph and the attributes of its nodes.
    pub fn graph(&mut self, graph: &mut Graph) -> Result<(), String> {
        for sparse in std::mem::take(&mut graph.sparse_initializers) {
            let dense = self.dense(&sparse).map_err(|what| {
                let name = sparse.values.as_ref().map_or("", |values| &values.name);
                format!("the sparse initializer `{name}`: {what}")
            })?;
            graph.initializers.push(dense);
        }
        self.nodes(&mut graph.nodes)
    }

    /// Converts the attributes of nodes.
    pub fn nodes(&mut self, nodes: &mut [Node]) -> Result<(), String> {
        for node in nodes {
            let site = format!("node `{}` ({})", title(node), node.op);
            for attribute in &mut node.attributes {
                if let Some(sparse) = attribute.sparse.take() {
                    let dense = self.dense(&sparse);
                    let dense = dense.map_err(|what| {
                        format!("{site}: its attribute `{}`: {what}", attribute.name)
                    })?;
                    (attribute.tensor, attribute.kind) = (Some(dense), 4);
                }
                attribute.graph.iter_mut().try_for_each(|graph| self.graph(graph))?;
            }
        }
        Ok(())
    }

    fn dense(&mut self, sparse: &Sparse) -> Result<Tensor, String> {
        let outside: tensor::Loader =
            &|_| Err("the parts of a sparse tensor must be in the file itself".into());
        let values = sparse.values.as_ref().ok_or("it has no values")?;
        let elements = tensor::tensor(values, outside)?;
        let dense = Tensor {
            dims: sparse.dims.clone(),
            dtype: tensor::number(elements.dtype()) as i32,
            name: values.name.clone(),
            ..Tensor::default()
        };
        let ty = tensor::ty(&dense)?;
        let [count] = *elements.shape() else {
            return Err(format!(
                "its values must have one axis, and have the shape {:?}",
                elements.shape()
            ));
        };
        let places = match &sparse.indices {
            Some(indices) => places(&tensor::tensor(indices, outside)?, &ty.shape)?,
            None => Vec::new(),
        };
        if places.len() != count {
            return Err(format!("it has {count} values, and {} indices", places.len()));
        }
        let (size, bytes) = (ty.dtype.size(), ty.elements() * ty.dtype.size());
        self.left = self.left.checked_sub(bytes).ok_or_else(|| {
            format!(
                "its {bytes} bytes as a dense tensor are more than the {} that are left of {MOST}",
                self.left
            )
        })?;
        let mut raw = vec![0; bytes];
        for (place, value) in places.iter().zip(elements.bytes().chunks_exact(size)) {
            raw[place * size..][..size].copy_from_slice(value);
        }
        Ok(Tensor { raw: raw.into(), ..dense })
    }
}

/// Returns the positions of the elements in a dense tensor of this shape, and checks that they are
/// distinct.
fn places(indices: &crate::tensor::Tensor, shape: &[usize]) -> Result<Vec<usize>, String> {
    if indices.dtype() != DType::I64 {
        return Err(format!("its indices must be i64, and are {}", indices.dtype()));
    }
    let total = [shape.iter().product()];
    let (sizes, count) = match *indices.shape() {
        [count] => (total.as_slice(), count),
        [count, axes] if axes == shape.len() => (shape, count),
        _ => {
            return Err(format!(
                "its indices have the shape {:?}, and it has {} axes",
                indices.shape(),
                shape.len()
            ));
        }
    };
    let numbers: Vec<i64> = indices.scalars().map(|index| index.to_i64()).collect();
    let place = |row: &[i64]| {
        row.iter().zip(sizes).try_fold(0, |place, (&index, &size)| {
            let inside = usize::try_from(index).ok().filter(|index| *index < size);
            let index = inside
                .ok_or_else(|| format!("its index {index} is not within an axis of size {size}"))?;
            Ok::<usize, String>(place * size + index)
        })
    };
    let rows = (0..count).map(|number| place(&numbers[number * sizes.len()..][..sizes.len()]));
    let places = rows.collect::<Result<Vec<usize>, String>>()?;
    let mut sorted = places.clone();
    sorted.sort_unstable();
    match sorted.windows(2).find(|two| two[0] == two[1]) {
        Some(twice) => Err(format!("its indices name the place {} twice", twice[0])),
        None => Ok(places),
    }
}
