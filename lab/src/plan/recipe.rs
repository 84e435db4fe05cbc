//! Questions that people ask, each as a file: the options of `lab run` that answer it and, where
//! the arms are not those of a feature, the arms.

use super::arm::{Arm, ModuleParameter, Setting};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

/// A recipe that is longer is none.
const MOST_BYTES: u64 = 1 << 20;

/// Those that come with the program, by name.
const OWN: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/recipes.rs"));

/// A question with what answers it.
#[derive(Clone, Debug, PartialEq)]
pub struct Recipe {
    /// As users write it.
    pub name: String,
    /// In a sentence.
    pub question: String,
    /// What to look at in the answer.
    pub read: String,
    /// The verb of the lab that answers it, where it is not `run`.
    pub verb: Option<Verb>,
    /// Options of `lab run` in the order of their names, as words of a command line.
    pub words: Vec<String>,
    /// What is switched and the arms, where no feature's will do.
    pub arms: Option<(String, Vec<Arm>)>,
}

/// A verb that a recipe stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    /// Its table is its own, and no option changes it.
    Senduipi,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    question: String,
    #[serde(default)]
    read: String,
    verb: Option<Verb>,
    switched: Option<String>,
    #[serde(default)]
    options: BTreeMap<String, toml::Value>,
    #[serde(default)]
    arm: Vec<ArmRow>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ArmRow {
    label: String,
    setting: Setting,
    #[serde(default)]
    parameters: Vec<String>,
    #[serde(default)]
    without: Vec<String>,
    #[serde(default)]
    host: String,
    #[serde(default)]
    guest: String,
}

impl Recipe {
    /// All that come with the program. A test reads them.
    pub fn all() -> Vec<Self> {
        OWN.iter().filter_map(|(name, text)| Self::parse(name, text).ok()).collect()
    }

    /// One by its name, or a file of the user's.
    pub fn find(name: &str) -> anyhow::Result<Self> {
        if let Some((name, text)) = OWN.iter().find(|(own, _)| *own == name) {
            return Self::parse(name, text).map_err(|why| anyhow::anyhow!("recipe {name}: {why}"));
        }
        let known = || OWN.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        anyhow::ensure!(
            name.ends_with(".toml"),
            "{name:?} is neither a recipe ({}) nor the name of a file that ends with .toml",
            known()
        );
        let mut text = String::new();
        let read = std::fs::File::open(name)
            .and_then(|file| file.take(MOST_BYTES + 1).read_to_string(&mut text));
        read.map_err(|error| anyhow::anyhow!("cannot read {name}: {error}"))?;
        anyhow::ensure!(text.len() as u64 <= MOST_BYTES, "{name} has more than 1 MiB");
        let stem = Path::new(name).file_stem().unwrap_or_default().to_string_lossy();
        Self::parse(&stem, &text).map_err(|why| anyhow::anyhow!("{name}: {why}"))
    }

    fn parse(name: &str, text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        let mut words = Vec::new();
        for (option, value) in &file.options {
            match value {
                toml::Value::Array(values) => {
                    for value in values {
                        words.extend(option_words(option, value)?);
                    }
                }
                value => words.extend(option_words(option, value)?),
            }
        }
        let arms = file.arm.into_iter().map(ArmRow::arm).collect::<Result<Vec<_>, _>>()?;
        let arms = match (file.switched, arms.is_empty()) {
            (Some(switched), false) => Some((switched, checked(arms)?)),
            (None, true) => None,
            (Some(_), true) => return Err("switched says of what arms? There is no [[arm]]".into()),
            (None, false) => {
                return Err("what do the arms switch? switched = \"...\" says it".into());
            }
        };
        if file.verb.is_some() && (!words.is_empty() || arms.is_some()) {
            return Err("a verb of its own has neither options of lab run nor arms".into());
        }
        let (name, verb) = (name.to_owned(), file.verb);
        Ok(Self { name, question: file.question, read: file.read, verb, words, arms })
    }
}

/// One word with an equals sign, so that a value that begins with a dash is a value.
fn option_words(option: &str, value: &toml::Value) -> Result<Option<String>, String> {
    let text = match value {
        toml::Value::Boolean(true) => return Ok(Some(format!("--{option}"))),
        toml::Value::Boolean(false) => return Ok(None),
        toml::Value::String(text) => text.clone(),
        toml::Value::Integer(number) => number.to_string(),
        other => {
            return Err(format!(
                "options.{option} is {other}: a text, a whole number, true, or a list of them"
            ));
        }
    };
    Ok(Some(format!("--{option}={text}")))
}

/// Results set the first arm beside the last.
fn checked(arms: Vec<Arm>) -> Result<Vec<Arm>, String> {
    let settings: Vec<Setting> = arms.iter().map(|arm| arm.setting).collect();
    let (first, last) = (settings.first(), settings.last());
    let is_between = |setting: &Setting| *setting == Setting::Between;
    let middle = settings.get(1..settings.len().saturating_sub(1)).unwrap_or_default();
    if first == Some(&Setting::Off) && last == Some(&Setting::On) && middle.iter().all(is_between) {
        return Ok(arms);
    }
    Err("the first arm is off, the last on, and others are between".into())
}

impl ArmRow {
    fn arm(self) -> Result<Arm, String> {
        let parameter = |text: &String| {
            let (module, rest) = text.split_once('.')?;
            let (name, value) = rest.split_once('=')?;
            let (module, name, value) = (module.into(), name.into(), value.into());
            Some(ModuleParameter { module, name, value })
        };
        let parameters = self.parameters.iter();
        let parameters = parameters
            .map(|text| parameter(text).ok_or(format!("{text:?} is not MODULE.NAME=VALUE")))
            .collect::<Result<Vec<_>, _>>()?;
        let Self { label, setting, without, host, guest, .. } = self;
        Ok(Arm { label, setting, parameters, without, host, guest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recipe_of_the_program_is_whole() {
        for (name, text) in OWN {
            let recipe = Recipe::parse(name, text).expect(name);
            assert!(recipe.question.ends_with('?') || recipe.question.contains("? "), "{name}");
            assert!(!recipe.read.is_empty(), "{name}");
            for needed in ["--cpu=", "--kernel=", "--workload="] {
                assert!(
                    recipe.verb.is_some()
                        || recipe.words.iter().any(|word| word.starts_with(needed)),
                    "{name}: {needed}"
                );
            }
        }
        assert_eq!(Recipe::all().len(), OWN.len());
        assert!(OWN.len() >= 8, "questions that people ask");
    }

    #[test]
    fn every_recipe_has_its_part_of_the_page() {
        let page = include_str!("../../../docs/recipes.md");
        let parts: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
        let mut names: Vec<&str> = OWN.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        let mut told = parts.clone();
        told.sort_unstable();
        assert_eq!(told, names);
    }

    #[test]
    fn options_are_words_and_arms_are_arms() {
        let text = r#"
            question = "why?"
            switched = "x"
            [options]
            cpus = 4
            expect = ["exits.on < 1", "inhibited == 0"]
            all = true
            breakdown = false
            [[arm]]
            label = "x off"
            setting = "off"
            parameters = ["kvm_amd.avic=1"]
            [[arm]]
            label = "x on"
            setting = "on"
            host = "word"
        "#;
        let recipe = Recipe::parse("test", text).expect("a recipe");
        let words = ["--all", "--cpus=4", "--expect=exits.on < 1", "--expect=inhibited == 0"];
        assert_eq!(recipe.words, words);
        let (switched, arms) = recipe.arms.expect("arms");
        assert_eq!((switched.as_str(), arms.len(), arms[1].host.as_str()), ("x", 2, "word"));
        assert_eq!(arms[0].parameters[0].to_string(), "kvm_amd.avic=1");
    }

    #[test]
    fn what_is_no_recipe_says_what_would_be() {
        for (text, complaint) in [
            ("", "question"),
            ("question = \"?\"\nwrong = 1", "wrong"),
            ("question = \"?\"\n[options]\ncpus = 1.5", "options.cpus"),
            ("question = \"?\"\n[[arm]]\nlabel = \"a\"\nsetting = \"off\"", "switched"),
            ("question = \"?\"\nswitched = \"a\"", "no [[arm]]"),
            ("question = \"?\"\nverb = \"sudo\"", "senduipi"),
            ("question = \"?\"\nverb = \"senduipi\"\n[options]\ncpus = 2", "neither options"),
            (
                "question = \"?\"\nswitched = \"a\"\n[[arm]]\nlabel = \"a\"\nsetting = \"on\"",
                "the first arm is off",
            ),
            (
                "question = \"?\"\nswitched = \"a\"\n[[arm]]\nlabel = \"a\"\nsetting = \"off\"\n\
                 parameters = [\"avic=1\"]",
                "MODULE.NAME=VALUE",
            ),
        ] {
            let error = Recipe::parse("test", text).expect_err(text);
            assert!(error.contains(complaint), "{text}: {error}");
        }
        let error = Recipe::find("nosuch").expect_err("no recipe").to_string();
        assert!(error.contains("avic, ") && error.contains(".toml"), "{error}");
        assert!(Recipe::find("/no/such.toml").is_err());
    }
}
