//! What the environment says about hubs, the cache and the network.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use super::token::Token;

/// How long is waited, and how often something is tried again.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// So long without a byte means that the connection is cut.
    pub silence: Duration,
    /// The first wait after a failure; it doubles up to 16 times that, and begins anew once bytes have come.
    pub pause: Duration,
    /// Failures in a row, without a byte between them, that are too many.
    pub tries: u32,
    /// The longest `Retry-After` that is kept; what is longer is an error that says so.
    pub longest: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Patience {
            silence: Duration::from_secs(30),
            pause: Duration::from_secs(1),
            tries: 6,
            longest: Duration::from_secs(300),
        }
    }
}

/// Where models come from, and where they are kept.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The folder that holds `models--…`; `None` where nothing says which.
    pub cache: Option<PathBuf>,
    /// The hub, without a slash at its end.
    pub endpoint: String,
    /// ModelScope.
    pub modelscope: String,
    /// Ollama's registry.
    pub ollama: String,
    /// Folders in which Ollama on this machine keeps its models.
    pub ollama_stores: Vec<PathBuf>,
    /// For the hub's endpoint.
    pub token: Option<Token>,
    /// Use no network.
    pub offline: bool,
    /// How long is waited.
    pub patience: Patience,
    /// Bytes from which on a file comes over several connections.
    pub parallel_from: u64,
    /// Bytes that stay free on the disk.
    pub spare: u64,
}

impl Settings {
    /// From a reader of variables; `std::env::var_os` is the real one. Reads the token file too.
    pub fn read(env: impl Fn(&str) -> Option<OsString>) -> Self {
        let set = |name: &str| env(name).filter(|value| !value.is_empty());
        let text = |name: &str| set(name).and_then(|value| value.into_string().ok());
        let path = |name: &str| set(name).map(PathBuf::from);
        let home = path("HOME").or_else(|| path("USERPROFILE"));
        let hub_home = path("HF_HOME")
            .or_else(|| path("XDG_CACHE_HOME").map(|cache| cache.join("huggingface")))
            .or_else(|| home.as_ref().map(|home| home.join(".cache/huggingface")));
        let named = ["LLAMA_CACHE", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"].into_iter().find_map(path);
        let token_file = path("HF_TOKEN_PATH").or_else(|| hub_home.as_ref().map(|home| home.join("token")));
        let token_text = ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"].into_iter().find_map(text);
        let token = token_text.or_else(|| std::fs::read_to_string(token_file?).ok());
        let switches = ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "LLAMA_ARG_OFFLINE"];
        let on = |value: String| ["1", "true", "yes", "on"].contains(&value.to_ascii_lowercase().as_str());
        let stores = [path("OLLAMA_MODELS"), home.map(|home| home.join(".ollama/models"))];
        let shared = Path::new("/usr/share/ollama/.ollama/models").to_owned();
        let endpoint = ["MODEL_ENDPOINT", "HF_ENDPOINT"].into_iter().find_map(text);
        Settings {
            cache: named.or_else(|| hub_home.map(|home| home.join("hub"))),
            endpoint: endpoint.map_or("https://huggingface.co".into(), |url| url.trim_end_matches('/').to_owned()),
            modelscope: "https://modelscope.cn".into(),
            ollama: "https://registry.ollama.ai".into(),
            ollama_stores: stores.into_iter().flatten().chain([shared]).collect(),
            token: token.as_deref().and_then(Token::new),
            offline: switches.into_iter().filter_map(text).any(on),
            patience: Patience::default(),
            parallel_from: 256 << 20,
            spare: 64 << 20,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(vars: &[(&str, &str)]) -> Settings {
        Settings::read(|name| vars.iter().find(|var| var.0 == name).map(|var| var.1.into()))
    }

    #[test]
    fn the_cache_is_where_the_hub_and_llama_cpp_look() {
        let all = [
            ("LLAMA_CACHE", "/a", "/a"),
            ("HF_HUB_CACHE", "/b", "/b"),
            ("HUGGINGFACE_HUB_CACHE", "/c", "/c"),
            ("HF_HOME", "/d", "/d/hub"),
            ("XDG_CACHE_HOME", "/e", "/e/huggingface/hub"),
            ("HOME", "/f", "/f/.cache/huggingface/hub"),
        ];
        for (i, (name, _, wanted)) in all.iter().enumerate() {
            let vars: Vec<_> = all[i..].iter().map(|row| (row.0, row.1)).collect();
            assert_eq!(read(&vars).cache, Some(PathBuf::from(wanted)), "{name}");
            assert_eq!(read(&[(name, "")]).cache, None, "{name} is empty");
        }
    }

    #[test]
    fn endpoints_switches_and_tokens() {
        let plain = read(&[]);
        assert_eq!(
            (plain.endpoint.as_str(), plain.offline, plain.token.is_none()),
            ("https://huggingface.co", false, true)
        );
        assert_eq!(read(&[("HF_ENDPOINT", "http://m/")]).endpoint, "http://m");
        assert_eq!(read(&[("HF_ENDPOINT", "http://m"), ("MODEL_ENDPOINT", "http://n/")]).endpoint, "http://n");
        for (name, value, on) in
            [("HF_HUB_OFFLINE", "1", true), ("LLAMA_ARG_OFFLINE", "ON", true), ("HF_HUB_OFFLINE", "0", false)]
        {
            assert_eq!(read(&[(name, value)]).offline, on, "{name}={value}");
        }
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("token"), "hf_file\n").expect("a token file");
        let home = folder.path().to_str().expect("a path");
        let header = |vars: &[(&str, &str)]| read(vars).token.and_then(|token| token.header());
        assert_eq!(header(&[("HF_HOME", home)]).as_deref(), Some("Bearer hf_file"));
        assert_eq!(header(&[("HF_HOME", home), ("HF_TOKEN", "hf_said")]).as_deref(), Some("Bearer hf_said"));
        assert!(!format!("{:?}", read(&[("HF_TOKEN", "hf_said")])).contains("hf_said"));
    }
}
