//! `/slots/ID?action=…`: what the last request of a slot has left in the prefix cache, to a file and back.
//!
//! A slot is one of the decoder's sequences. It is dealt with between two steps, when no request runs there; files are
//! checked before and made safe after that, beside the thread that steps.

use std::{
    path::{Path as FilePath, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Json,
    body::Bytes,
    extract::{Path, Query, State},
    http::HeaderMap,
};
use qrun_models::Salt;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::{sync::oneshot, time::timeout};

use super::sampling::salt;
use crate::{
    generate::{Draft, SaveError, Saved, Scheduler, may_be_saved_to},
    server::{
        body::{OWNER, object},
        conversation::blocking,
        error::ApiError,
        fields::{Fields, brief},
        job::engine_gone,
        state::App,
    },
};

/// Longest name of a file, in bytes.
const NAME: usize = 128;
/// A file that is not whole and was not written to for so long is nobody's: a save takes seconds.
const LEFT: Duration = Duration::from_secs(3600);

/// The query of `/slots/ID`.
#[derive(Debug, Deserialize)]
pub struct Wanted {
    #[serde(default)]
    action: String,
}

/// `POST /slots/ID?action=save|restore|erase`.
///
/// # Errors
/// 501: the server was started without a folder for slots. 400: no such slot, action or file, or one of another model.
/// 503: the model loads, the queue is full, or the slot stays busy. 500: the file cannot be written.
pub async fn act(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Query(Wanted { action }): Query<Wanted>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Value>, ApiError> {
    let Some(mut folder) = app.options.slot_save_path.clone() else {
        return Err(ApiError::not_implemented(
            "slots are neither saved nor erased: start the server with --slot-save-path DIR",
        ));
    };
    let most = app.model()?.engine.options().n_seq;
    let known = id.parse().ok().filter(|&slot: &usize| slot < most);
    let slot = known.ok_or_else(|| ApiError::field("slot", &format!("a number from 0 to {}", most - 1), &id))?;
    // Counted as a request: whoever asks for a busy slot waits, and not too many do.
    let _room = app.admit(1)?;
    let started = Instant::now();
    let body = object(&app, &headers, if body.is_empty() { b"{}" } else { &body })?;
    let salt = salt(&app, Fields(&body))?;
    if let Some(folders) = &app.key_folders {
        // Nobody restores what another key has saved.
        folder.push(folders.name(body.get(OWNER).and_then(Value::as_str).unwrap_or_default()));
    }
    let mut answer = match action.as_str() {
        "save" => save(&app, (slot, salt), file_name(&body)?, folder).await?,
        "restore" => restore(&app, (slot, salt), file_name(&body)?, folder).await?,
        "erase" => json!({ "n_erased": on_slot(&app, slot, move |s| s.erase_slot(slot, &salt)).await? }),
        other => return Err(ApiError::field("action", "save, restore or erase", format!("{other:?}"))),
    };
    answer["id_slot"] = slot.into();
    if action != "erase" {
        answer["timings"] = json!({ format!("{action}_ms"): started.elapsed().as_secs_f64() * 1e3 });
    }
    Ok(Json(answer))
}

async fn save(app: &Arc<App>, (slot, salt): (usize, Salt), name: String, folder: PathBuf) -> Result<Value, ApiError> {
    // Nobody can ask for a name with a point before it.
    let (path, unfinished) = (folder.join(&name), folder.join(app.id(&format!(".{name}."))));
    let (to, saved_as, model) = (path.clone(), name.clone(), app.model()?.engine.gguf().path().to_owned());
    let taken = |_| ApiError::field("filename", "a free name, or that of a saved slot", "that of another file");
    let failed = |error: std::io::Error| ApiError::internal(format!("the slot was not saved: {error}"));
    blocking(move || {
        std::fs::create_dir_all(&folder).map_err(failed)?;
        clear(&folder, &saved_as);
        may_be_saved_to(&to, &model, "").map_err(taken)
    })
    .await?;
    let fingerprint = fingerprint(app).await?;
    let fill = move |scheduler: &mut Scheduler| {
        let mut draft = Draft::new(&path, unfinished)?;
        Ok((scheduler.save_slot(slot, &salt, (&mut draft, fingerprint))?, draft))
    };
    let ((saved, written), draft) = on_slot(app, slot, fill).await?.map_err(failed)?;
    blocking(move || draft.finish().map_err(failed)).await?;
    Ok(json!({ "filename": name, "n_saved": saved, "n_written": written }))
}

/// Removes what saves of this name have left in the folder when their server was killed.
fn clear(folder: &FilePath, name: &str) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let file = entry.file_name();
        let id = file.to_str().and_then(|file| file.strip_prefix('.')?.strip_prefix(name)?.strip_prefix('.'));
        // As `App::id` makes them.
        let is_draft = id.is_some_and(|id| id.len() >= 24 && id.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let written =
            entry.metadata().ok().filter(|meta| is_draft && meta.is_file()).and_then(|meta| meta.modified().ok());
        if written.and_then(|written| written.elapsed().ok()).is_some_and(|age| age > LEFT) {
            // The save goes on without it.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

async fn restore(
    app: &Arc<App>,
    (slot, salt): (usize, Salt),
    name: String,
    folder: PathBuf,
) -> Result<Value, ApiError> {
    let path = folder.join(&name);
    let saved = blocking(move || Saved::open(&path).map_err(ApiError::from)).await?;
    let model = app.model()?;
    let (n_ctx, n_vocab) = (model.engine.options().n_ctx, model.engine.model().config.n_vocab);
    let (restored, read) = (saved.tokens.len(), saved.bytes);
    let wrong = |expected: String, found: String| Err(ApiError::field("filename", &expected, found));
    if saved.fingerprint != fingerprint(app).await? {
        return wrong("a slot of this model".into(), "one of another model".into());
    }
    if restored > n_ctx {
        return wrong(format!("at most {n_ctx} tokens, as many as a slot has room for"), format!("{restored}"));
    }
    if let Some(token) = saved.tokens.iter().find(|&&token| token as usize >= n_vocab) {
        return wrong(format!("token ids from 0 to {}", n_vocab - 1), token.to_string());
    }
    let Saved { tokens, mut cache, .. } = saved;
    let put = move |scheduler: &mut Scheduler| scheduler.restore_slot(slot, salt, (tokens, &mut cache));
    on_slot(app, slot, put).await?.map_err(|error| not_restored(app, error))?;
    Ok(json!({ "filename": name, "n_restored": restored, "n_read": read }))
}

/// 503 where running requests hold the pages that it needs.
fn not_restored(app: &App, error: std::io::Error) -> ApiError {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<qrun_models::ForwardError>());
    match inner {
        Some(error) => ApiError::unavailable(format!("the slot was not restored: {error}"), app.retry_after(1)),
        None => ApiError::field("filename", "keys and values of this model and its cache types", error),
    }
}

/// Does something with a slot between two steps, when no request runs there.
async fn on_slot<T: Send + 'static>(
    app: &App,
    slot: usize,
    work: impl FnOnce(&mut Scheduler) -> T + Send + 'static,
) -> Result<T, ApiError> {
    let (sender, receiver) = oneshot::channel();
    let work = move |scheduler: &mut Scheduler| {
        // Who asked may have gone meanwhile.
        if !sender.is_closed() {
            let _ = sender.send(work(scheduler));
        }
    };
    app.model()?.generator.between(slot, Box::new(work));
    let time = app.options.queue_timeout;
    match timeout(time, receiver).await {
        Ok(done) => done.map_err(|_| engine_gone()),
        // One answer runs there.
        Err(_) => {
            let message = format!("slot {slot} was busy for {} s", time.as_secs());
            Err(ApiError::unavailable(message, app.metrics.retry_after(0, 1)))
        }
    }
}

/// The model's. It reads the whole vocabulary: not for the thread for HTTP.
async fn fingerprint(app: &Arc<App>) -> Result<u64, ApiError> {
    let app = app.clone();
    blocking(move || Ok(app.model()?.engine.fingerprint())).await
}

/// `filename`: a plain name in the folder for slots.
fn file_name(body: &Map<String, Value>) -> Result<String, ApiError> {
    let name = Fields(body).text("filename")?.ok_or_else(|| ApiError::missing("filename"))?;
    let plain = !name.is_empty() && !name.starts_with('.') && !name.contains("..") && name.len() <= NAME;
    if !plain || name.contains(|c: char| c.is_control() || "/\\:*?\"<>|".contains(c)) {
        let expected = format!("a name of 1 to {NAME} bytes without separators, without a point before it");
        return Err(ApiError::field("filename", &expected, brief(&name.into())));
    }
    Ok(name.to_owned())
}

impl From<SaveError> for ApiError {
    fn from(error: SaveError) -> Self {
        // Without the folder, which is the server's own matter.
        match error {
            SaveError::Io { source, .. } => Self::field("filename", "a saved slot", source),
            SaveError::Wrong { expected, found, .. } => Self::field("filename", expected, found),
            SaveError::Generate(error) => error.into(),
        }
    }
}
