//! Maps and sets whose keys are nodes of one graph. They are lists by node index, so they take the
//! memory of a slot for every node up to the last key. For a few nodes of a large graph, use a hash
//! map. Iteration is in order of ids.

use std::ops::Index;

use super::NodeId;

/// A map from nodes of a graph to values.
#[derive(Clone, Debug)]
pub struct NodeMap<T> {
    slots: Vec<Option<T>>,
}

impl<T> NodeMap<T> {
    /// Creates an empty map.
    pub fn new() -> NodeMap<T> {
        NodeMap::default()
    }

    /// Returns the value of a node.
    pub fn get(&self, id: NodeId) -> Option<&T> {
        self.slots.get(id.index())?.as_ref()
    }

    /// Returns whether a node has a value.
    pub fn contains(&self, id: NodeId) -> bool {
        self.get(id).is_some()
    }

    /// Returns the slot of a node, whose value may be missing.
    pub fn slot(&mut self, id: NodeId) -> &mut Option<T> {
        if self.slots.len() <= id.index() {
            self.slots.resize_with(id.index() + 1, || None);
        }
        &mut self.slots[id.index()]
    }

    /// Sets the value of a node, and returns its previous value.
    pub fn insert(&mut self, id: NodeId, value: T) -> Option<T> {
        self.slot(id).replace(value)
    }

    /// Removes the value of a node, and returns it.
    pub fn remove(&mut self, id: NodeId) -> Option<T> {
        self.slots.get_mut(id.index())?.take()
    }

    /// Returns whether no node has a value.
    pub fn is_empty(&self) -> bool {
        self.values().next().is_none()
    }

    /// Removes the values that `keep` refuses.
    pub fn retain(&mut self, keep: impl Fn(NodeId, &T) -> bool) {
        for (number, slot) in self.slots.iter_mut().enumerate() {
            slot.take_if(|value| !keep(NodeId::new(number), value));
        }
    }

    /// Returns the nodes that have values, with these, in ascending order of the nodes.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &T)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(number, slot)| Some((NodeId::new(number), slot.as_ref()?)))
    }

    /// Returns the nodes and their values, in ascending order of the nodes.
    pub fn into_entries(self) -> impl Iterator<Item = (NodeId, T)> {
        let slots = self.slots.into_iter().enumerate();
        slots.filter_map(|(number, slot)| Some((NodeId::new(number), slot?)))
    }

    /// Returns the values, in ascending order of their nodes.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().flatten()
    }
}

impl<T> Default for NodeMap<T> {
    fn default() -> Self {
        NodeMap { slots: Vec::new() }
    }
}

impl<T> Index<NodeId> for NodeMap<T> {
    type Output = T;

    fn index(&self, id: NodeId) -> &T {
        self.get(id).expect("the node has a value")
    }
}

impl<T> Extend<(NodeId, T)> for NodeMap<T> {
    fn extend<E: IntoIterator<Item = (NodeId, T)>>(&mut self, entries: E) {
        entries.into_iter().for_each(|(id, value)| _ = self.insert(id, value));
    }
}

impl<T> FromIterator<(NodeId, T)> for NodeMap<T> {
    fn from_iter<E: IntoIterator<Item = (NodeId, T)>>(entries: E) -> Self {
        let mut map = NodeMap::new();
        map.extend(entries);
        map
    }
}

/// A set of nodes of a graph.
#[derive(Clone, Debug, Default)]
pub struct NodeSet {
    members: NodeMap<()>,
}

impl NodeSet {
    /// Creates an empty set.
    pub fn new() -> NodeSet {
        NodeSet::default()
    }

    /// Returns whether the set has a node.
    pub fn contains(&self, id: NodeId) -> bool {
        self.members.contains(id)
    }

    /// Adds a node, and returns whether it is new.
    pub fn insert(&mut self, id: NodeId) -> bool {
        self.members.insert(id, ()).is_none()
    }

    /// Removes a node, and returns whether the set had it.
    pub fn remove(&mut self, id: NodeId) -> bool {
        self.members.remove(id).is_some()
    }

    /// Returns whether the set has no nodes.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Returns the nodes in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = NodeId> {
        self.members.iter().map(|(id, ())| id)
    }
}

impl Extend<NodeId> for NodeSet {
    fn extend<E: IntoIterator<Item = NodeId>>(&mut self, nodes: E) {
        self.members.extend(nodes.into_iter().map(|id| (id, ())));
    }
}

impl<'a> Extend<&'a NodeId> for NodeSet {
    fn extend<E: IntoIterator<Item = &'a NodeId>>(&mut self, nodes: E) {
        self.extend(nodes.into_iter().copied());
    }
}

impl FromIterator<NodeId> for NodeSet {
    fn from_iter<E: IntoIterator<Item = NodeId>>(nodes: E) -> Self {
        let mut set = NodeSet::new();
        set.extend(nodes);
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_in_order_of_ids() {
        let id = NodeId::new;
        let mut map: NodeMap<&str> = [(id(5), "five"), (id(2), "two")].into_iter().collect();
        assert_eq!(map.insert(id(5), "V"), Some("five"));
        assert_eq!(map.insert(id(3), "three"), None);
        assert_eq!(map.remove(id(2)), Some("two"));
        assert_eq!((map.remove(id(2)), map.remove(id(9))), (None, None));
        assert_eq!((map.get(id(9)), map.contains(id(4)), map[id(3)]), (None, false, "three"));
        assert_eq!(map.iter().collect::<Vec<_>>(), [(id(3), &"three"), (id(5), &"V")]);
        map.slot(id(4)).get_or_insert("four");
        assert_eq!(map.values().collect::<Vec<_>>(), [&"three", &"four", &"V"]);
    }

    #[test]
    fn members_are_in_order_of_ids() {
        let id = NodeId::new;
        let mut set: NodeSet = [id(7), id(1)].into_iter().collect();
        assert_eq!((set.insert(id(7)), set.insert(id(0))), (false, true));
        assert_eq!((set.remove(id(1)), set.remove(id(2))), (true, false));
        assert_eq!(set.iter().collect::<Vec<_>>(), [id(0), id(7)]);
        assert!(set.contains(id(7)) && !set.contains(id(1)));
    }
}
