//! (head to come)
