//! `cargo xtask bill`: the bill of materials of the program as CycloneDX 1.6: every package of
//! others that is built into it or that builds it, with licence and checksum. The same sources give
//! the same text.

use crate::cargo::cargo;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use toml::Table;

const PROGRAM: &str = "avicenna";
const TARGET: &str = "x86_64-unknown-linux-gnu";

pub fn print(root: &Path) -> Result<()> {
    let mut metadata = cargo();
    metadata.args(["metadata", "--locked", "--format-version=1", "--filter-platform", TARGET]);
    let output = metadata.current_dir(root).output()?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let checksums = checksums(&fs::read_to_string(root.join("Cargo.lock"))?)?;
    println!("{:#}", bill(&metadata, &checksums)?);
    Ok(())
}

/// By name and version.
fn checksums(lock: &str) -> Result<BTreeMap<(String, String), String>> {
    let lock: Table = lock.parse()?;
    let packages = lock.get("package").and_then(toml::Value::as_array).context("no packages")?;
    let entry = |package: &toml::Value| {
        let text = |key: &str| Some(package.get(key)?.as_str()?.to_owned());
        Some(((text("name")?, text("version")?), text("checksum")?))
    };
    Ok(packages.iter().filter_map(entry).collect())
}

fn bill(metadata: &Value, checksums: &BTreeMap<(String, String), String>) -> Result<Value> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let packages = list(&metadata["packages"]);
    let nodes = list(&metadata["resolve"]["nodes"]);
    let own = packages.iter().find(|package| package["name"] == PROGRAM);
    let own = own.context("the program is not one of the packages")?;
    let mut reached = BTreeSet::new();
    let mut waiting = vec![text(&own["id"])];
    while let Some(id) = waiting.pop() {
        if !reached.insert(id.clone()) {
            continue;
        }
        let node = nodes.iter().find(|node| node["id"] == *id).context("a package without node")?;
        // Not what only tests need.
        let is_built = |need: &Value| list(&need["dep_kinds"]).iter().any(|it| it["kind"] != "dev");
        let needs = list(&node["deps"]).into_iter().filter(is_built);
        waiting.extend(needs.map(|need| text(&need["pkg"])));
    }
    let of_others =
        |package: &&Value| package["source"].is_string() && reached.contains(&text(&package["id"]));
    let component = |package: &Value| {
        let (name, version) = (text(&package["name"]), text(&package["version"]));
        let checksum = checksums.get(&(name.clone(), version.clone())).cloned();
        let purl = format!("pkg:cargo/{name}@{version}");
        json!({
            "type": "library",
            "bom-ref": purl,
            "name": name,
            "version": version,
            "purl": purl,
            "licenses": [{ "expression": text(&package["license"]).replace('/', " OR ") }],
            "hashes": [{ "alg": "SHA-256", "content": checksum }],
        })
    };
    let mut components: Vec<Value> = packages.iter().filter(of_others).map(component).collect();
    components.sort_by_key(|component| text(&component["purl"]));
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": { "component": {
            "type": "application",
            "bom-ref": PROGRAM,
            "name": PROGRAM,
            "version": own["version"],
        } },
        "components": components,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_in_is_listed_and_what_only_tests_need_is_not() {
        let package = |name: &str, source: Option<&str>| json!({ "id": name, "name": name, "version": "1.0.0", "source": source, "license": "MIT/Apache-2.0" });
        let need = |name: &str, kind: Option<&str>| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let node = |name: &str, deps: &[Value]| json!({ "id": name, "deps": deps });
        let metadata = json!({
            "packages": [package(PROGRAM, None), package("ours", None), package("a", Some("r")),
                package("b", Some("r")), package("c", Some("r"))],
            "resolve": { "nodes": [
                node(PROGRAM, &[need("ours", None), need("c", Some("dev"))]),
                node("ours", &[need("a", None), need("b", Some("build"))]),
                node("a", &[]), node("b", &[]), node("c", &[]),
            ] },
        });
        let sums = checksums("[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"0f\"\n");
        let bill = bill(&metadata, &sums.unwrap()).unwrap();
        let names: Vec<&Value> =
            bill["components"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(bill["components"][0]["hashes"][0]["content"], "0f");
        assert_eq!(bill["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
    }
}
