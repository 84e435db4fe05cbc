//! One form of modules: a folder's module is the file with its name beside it.

use super::source::File;

pub fn check(files: &[File], problems: &mut Vec<String>) {
    for file in files {
        // What tests share may not be a file of that folder: it would be a test by itself.
        let Some(folder) = file.path.strip_suffix("/mod.rs") else { continue };
        if !folder.contains("/tests/") {
            problems.push(format!("{}: name it {folder}.rs", file.path));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::file;

    #[test]
    fn a_folder_s_module_has_its_name() {
        let rows =
            [("cpu/src/svm/mod.rs", 1), ("cpu/src/svm.rs", 0), ("capture/tests/forms/mod.rs", 0)];
        for (path, expected) in rows {
            let mut problems = vec![];
            check(&[file(path, "")], &mut problems);
            assert_eq!(problems.len(), expected, "{path}");
        }
    }
}
