//! Log files: writing, rotation and the queue before the disk; and reading. It knows no section and
//! no feature.

pub mod file_logger;
pub mod log_file;
pub mod log_queue;
pub mod log_rotation;
pub mod log_writer;
pub mod read;
pub mod settings;
