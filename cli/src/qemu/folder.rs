//! QEMU's shared folders: what `-fsdev` and `-virtfs` say.

/// What one of these options says.
#[derive(Default)]
pub(super) struct Folder<'a> {
    id: Option<&'a str>,
    path: Option<&'a str>,
    tag: Option<&'a str>,
    is_read_only: bool,
    /// What has no effect.
    pub ignored: Vec<String>,
}

impl<'a> Folder<'a> {
    /// `local,path=FOLDER[,id=ID][,mount_tag=TAG][,readonly=on]...`
    pub fn parse(text: &'a str) -> Result<Self, String> {
        let (driver, words) = text.split_once(',').unwrap_or((text, ""));
        if driver != "local" {
            return Err(format!("{driver}: only local"));
        }
        let mut folder = Folder::default();
        for word in words.split(',').filter(|word| !word.is_empty()) {
            folder.take(word)?;
        }
        Ok(folder)
    }

    fn take(&mut self, word: &'a str) -> Result<(), String> {
        match word.split_once('=').unwrap_or((word, "on")) {
            ("id", value) => self.id = Some(value),
            ("path", value) => self.path = Some(value),
            ("mount_tag", value) => self.tag = Some(value),
            ("readonly", value) => self.is_read_only = matches!(value, "on" | "yes" | "true"),
            ("security_model", "none" | "passthrough") | ("multidevs", "remap") => {}
            ("security_model", "mapped" | "mapped-xattr" | "mapped-file") => {
                self.ignored.push(format!("{word}: owners and modes are those of the files"));
            }
            ("security_model", other) => {
                return Err(format!("security_model={other}: must be none or passthrough"));
            }
            ("multidevs" | "writeout" | "fmode" | "dmode", _) => self.ignored.push(word.into()),
            (name, _) if name.starts_with("throttling") => self.ignored.push(word.into()),
            _ => return Err(format!("{word}: no such word")),
        }
        Ok(())
    }

    /// What other options call it.
    pub fn id(&self) -> Result<&'a str, String> {
        self.id.ok_or_else(|| "id=ID is missing".into())
    }

    /// What the guest calls it.
    pub fn tag(&self) -> Result<&'a str, String> {
        self.tag.ok_or_else(|| "mount_tag=TAG is missing".into())
    }

    /// As `--share` takes it behind the tag.
    pub fn place(&self) -> Result<String, String> {
        let path = self.path.filter(|path| !path.is_empty()).ok_or("path=PATH is missing")?;
        Ok(format!("{path}{}", if self.is_read_only { "" } else { ",writable" }))
    }
}
