//! One vocabulary of interrupt-virtualization events, used by the machine, by recordings of real
//! hosts and by everything that analyses either.

pub mod inhibit;
