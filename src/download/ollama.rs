//! Ollama's registry, and the store of an Ollama on this machine.

use std::path::PathBuf;

use serde::Deserialize;

use super::{
    http::Http,
    hub::{Refused, is_sum, json, odd, remote},
    listing::Listing,
    name::Name,
    partial::sha256,
};

/// The type of the layer that is the GGUF file.
const MODEL: &str = "application/vnd.ollama.image.model";
const MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";

#[derive(Deserialize)]
struct Manifest {
    #[serde(default)]
    layers: Vec<Layer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Layer {
    media_type: String,
    digest: String,
    size: Option<u64>,
}

impl Manifest {
    /// SHA-256 and size of the GGUF file.
    fn model(self) -> Option<(String, Option<u64>)> {
        let layer = self.layers.into_iter().find(|layer| layer.media_type == MODEL)?;
        let sum = layer.digest.strip_prefix("sha256:")?.to_ascii_lowercase();
        is_sum(&sum).then_some((sum, layer.size))
    }
}

fn tag(name: &Name) -> &str {
    name.tag.as_deref().unwrap_or("latest")
}

/// What the file is called in the cache: `llama3.2-1b.gguf`.
pub fn file(name: &Name) -> String {
    format!("{}-{}.gguf", name.repo.rsplit('/').next().unwrap_or_default(), tag(name))
}

/// The registry's listing: one file.
///
/// # Errors
/// As of [`json`]; a manifest without a GGUF model.
pub fn registry(http: &Http, endpoint: &str, name: &Name) -> Result<Listing, Refused> {
    let url = format!("{endpoint}/v2/{}/manifests/{}", name.repo, tag(name));
    let (manifest, text): (Manifest, _) = json(http, &url, MANIFEST, "the manifest of a model")?;
    let (sum, size) = manifest.model().ok_or_else(|| odd(&url, "a layer that is a GGUF model", "none"))?;
    let blob = format!("{endpoint}/v2/{}/blobs/sha256:{sum}", name.repo);
    let files = remote(file(name), size, Some(sum.clone()), sum, blob).into_iter().collect();
    Ok(Listing { commit: sha256(text.as_bytes())[..40].to_owned(), files })
}

/// The file in the store of an Ollama on this machine, where one of these folders has it.
pub fn stored(stores: &[PathBuf], name: &Name) -> Option<PathBuf> {
    let path = format!("registry.ollama.ai/{}/{}", name.repo, tag(name));
    stores.iter().find_map(|store| {
        let text = std::fs::read_to_string(store.join("manifests").join(&path)).ok()?;
        let (sum, size) = serde_json::from_str::<Manifest>(&text).ok()?.model()?;
        let blob = store.join("blobs").join(format!("sha256-{sum}"));
        let len = blob.metadata().ok()?.len();
        size.is_none_or(|size| size == len).then_some(blob)
    })
}
