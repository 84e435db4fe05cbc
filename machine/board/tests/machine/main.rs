//! What a whole machine must do whatever runs on it.

mod backwards;
mod device_interrupt;
mod distance;
mod firmware;
mod governed;
mod hostile;
mod marks;
mod multiboot2;
mod program;
mod recalled;
mod restored;
mod spinning;
mod stopped;
mod waiting;
