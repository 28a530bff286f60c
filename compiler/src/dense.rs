//! Lists whose elements have numbers of a type of their own, so that the number of a buffer cannot
//! be taken for that of a routine.

use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// The number of an element of a [`Dense`] list: its position.
pub trait Id: Copy {
    /// Creates the id of a position.
    fn new(number: usize) -> Self;
    /// Returns the position.
    fn number(self) -> usize;
}

/// Defines a type of numbers.
macro_rules! id {
    ($(#[$attribute:meta])* $name:ident) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "pack", derive(serde::Serialize, serde::Deserialize))]
        #[cfg_attr(feature = "pack", serde(transparent))]
        pub struct $name(usize);

        impl $crate::dense::Id for $name {
            #[inline]
            fn new(number: usize) -> Self {
                Self(number)
            }

            #[inline]
            fn number(self) -> usize {
                self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl std::str::FromStr for $name {
            type Err = std::num::ParseIntError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map(Self)
            }
        }
    };
}
pub(crate) use id;

/// A list whose elements are numbered by `I`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "pack", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "pack", serde(transparent))]
pub struct Dense<I, T> {
    elements: Vec<T>,
    numbered_by: PhantomData<I>,
}

impl<I: Id, T> Dense<I, T> {
    /// Returns `count` copies of an element: one for each element of another list, for example.
    pub fn of(element: T, count: usize) -> Self
    where
        T: Clone,
    {
        vec![element; count].into()
    }

    /// Returns an empty list with room for `capacity` elements.
    pub fn with_capacity(capacity: usize) -> Self {
        Vec::with_capacity(capacity).into()
    }

    /// Adds an element, and returns its number.
    pub fn push(&mut self, element: T) -> I {
        self.elements.push(element);
        I::new(self.elements.len() - 1)
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// Returns the element, or `None` if there is none of this number.
    pub fn get(&self, id: I) -> Option<&T> {
        self.elements.get(id.number())
    }

    /// Returns the number of an element that the next [`push`](Self::push) will add.
    pub fn next_id(&self) -> I {
        I::new(self.elements.len())
    }

    /// Returns the numbers of all elements, in order.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = I> + use<I, T> {
        (0..self.elements.len()).map(I::new)
    }

    /// Returns the elements in order.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.elements.iter()
    }

    /// Returns the elements in order, for changes.
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.elements.iter_mut()
    }

    /// Returns the elements with their numbers.
    pub fn enumerate(&self) -> impl Iterator<Item = (I, &T)> {
        self.elements.iter().enumerate().map(|(number, element)| (I::new(number), element))
    }

    /// Returns the number of the first element that `is_wanted` accepts.
    pub fn position(&self, is_wanted: impl FnMut(&T) -> bool) -> Option<I> {
        self.elements.iter().position(is_wanted).map(I::new)
    }

    /// Removes all elements.
    pub fn clear(&mut self) {
        self.elements.clear();
    }

    /// Exchanges two elements. Panics if there is none of either number.
    pub fn swap(&mut self, one: I, other: I) {
        self.elements.swap(one.number(), other.number());
    }
}

impl<I: Id, T> Index<I> for Dense<I, T> {
    type Output = T;

    #[inline]
    fn index(&self, id: I) -> &T {
        &self.elements[id.number()]
    }
}

impl<I: Id, T> IndexMut<I> for Dense<I, T> {
    #[inline]
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.elements[id.number()]
    }
}

impl<I, T> Default for Dense<I, T> {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl<I, T> From<Vec<T>> for Dense<I, T> {
    fn from(elements: Vec<T>) -> Self {
        Self { elements, numbered_by: PhantomData }
    }
}

impl<I, T> FromIterator<T> for Dense<I, T> {
    fn from_iter<E: IntoIterator<Item = T>>(elements: E) -> Self {
        Vec::from_iter(elements).into()
    }
}

impl<I, T> IntoIterator for Dense<I, T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.elements.into_iter()
    }
}

impl<'a, I, T> IntoIterator for &'a Dense<I, T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.elements.iter()
    }
}

impl<'a, I, T> IntoIterator for &'a mut Dense<I, T> {
    type Item = &'a mut T;
    type IntoIter = std::slice::IterMut<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.elements.iter_mut()
    }
}
