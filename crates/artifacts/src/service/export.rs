//! Listing a run's files, in both forms that callers know.

use std::collections::HashSet;

use threadline_contract::{
    Artifact, ArtifactScope, Base64, EmptyReason, Fault,
    plugin::{ExportParams, ExportResult, FlatArtifact, ManifestFile, NotInlined, PageManifest},
};

use super::{
    Request, Service,
    collect::{omitted_set, testimony},
    inline::{self, Content},
    now, positive, warn,
};
use crate::{
    Constraints, Error, Export, ExportOptions, LINK_SECONDS, ScopeStyle,
    dirs::ExpectedDirs,
    outputs::{Gathered, MAX_COPIES, Outputs},
    reference::whole,
};

/// Files up to this size carry their content, when a caller does not say otherwise.
const MAX_INLINE_BYTES: u64 = 512 * 1024;

/// Files on a page, however many are asked for: an answer is made in memory. The rest follows by cursor.
pub const MAX_PAGE: usize = 20_000;

impl Service {
    /// Lists a page of the run's scope, with the content of small files. When folders are expected,
    /// what the run provably left in them is copied into it first.
    pub fn export(&self, params: &ExportParams) -> Result<ExportResult, Fault> {
        self.page(params, params.include_content.unwrap_or(true))
    }

    /// As [`export`](Self::export), without any content.
    pub fn list(&self, params: &ExportParams) -> Result<ExportResult, Fault> {
        self.page(params, false)
    }

    fn page(&self, params: &ExportParams, with_content: bool) -> Result<ExportResult, Fault> {
        let dirs = ExpectedDirs::new(&params.expected_artifact_dirs)?;
        let request = self.request(&params.whose)?;
        let (session, run) = (&request.session, &request.run);
        let (scope, style) = request.scope_to_read(&params.whose)?;
        let mut warnings = request.warnings.clone();

        let first = params.cursor.is_none();
        let gathered = if style == ScopeStyle::Own && first && !dirs.is_empty() {
            self.fall_back(&request, params, &dirs)?
        } else {
            Gathered::default()
        };
        warnings.extend(gathered.warnings);
        let testimony = testimony(&params.proof);
        let options = ExportOptions {
            max_files: positive(params.max_files).unwrap_or(200).min(MAX_PAGE),
            cursor: params.cursor.clone(),
            since_ms: testimony.since_ms,
            others_files: [testimony.others_files, testimony.maybe_others_files].concat(),
            constraints: Constraints::new(
                &params.required_artifact_extensions,
                &params.expected_file_count_by_extension,
            ),
            style,
            ..ExportOptions::default()
        };
        let mut export = request.workspace.export(session, run, &options)?;
        if first {
            let scope = std::mem::take(&mut export.omitted);
            let delivered: HashSet<&str> =
                export.artifacts.iter().map(|a| a.path.as_str()).collect();
            let is_delivered = |path: &str| delivered.contains(path);
            export.omitted = gathered.collected.omitted.with(scope, is_delivered);
        }
        if export.empty_reason == Some(EmptyReason::ScopeEmpty) && export.omitted.total() > 0 {
            export.empty_reason = Some(EmptyReason::AllOmitted);
        }
        say(&request, style, &scope, &export, &mut warnings);
        warnings.append(&mut export.warnings);

        let contents = if with_content {
            self.contents(&request, style, params, &mut export)?
        } else {
            Vec::new()
        };
        warn::about(&export.omitted, &mut warnings);
        let expires = now().saturating_add(LINK_SECONDS);
        if !export.artifacts.is_empty() {
            request.hold(expires)?;
        }
        let signer = self.keys().signer(session, run, expires);
        let mut contents = contents.into_iter();
        let artifacts: Vec<FlatArtifact> = export
            .artifacts
            .into_iter()
            .map(|artifact| {
                let reference = whole(&signer.sign(&artifact), expires);
                flat(artifact, reference, expires, &scope, contents.next())
            })
            .collect();
        not_inlined(&artifacts, &mut warnings);
        if export.remaining > 0 {
            warnings.push(format!(
                "{} more files are on later pages; ask again with `nextCursor`.",
                export.remaining
            ));
        }
        Ok(ExportResult {
            place: request.place(scope.clone()),
            manifest: PageManifest {
                scope,
                session_key: session.clone(),
                run_id: run.clone(),
                total_candidates: export.total_candidates,
                files: artifacts.iter().map(of_manifest).collect(),
            },
            artifacts,
            omitted: omitted_set(export.omitted, export.remaining, export.remaining_bytes),
            next_cursor: export.next_cursor,
            empty_reason: export.empty_reason,
            expected_artifact_dirs: dirs.names(),
            expected_artifact_dir_status: dirs.status(request.workspace.root()),
            constraint_satisfied: export.gaps.satisfied(),
            missing_required_extensions: export.gaps.extensions,
            missing_required_file_counts: export.gaps.counts,
            warnings,
        })
    }

    fn fall_back(
        &self,
        request: &Request,
        params: &ExportParams,
        dirs: &ExpectedDirs,
    ) -> Result<Gathered, Error> {
        let outputs = Outputs {
            roots: &self.settings.output_roots,
            scan: false,
            only: None,
            dirs: Some(dirs),
            testimony: &testimony(&params.proof),
            max_files: MAX_COPIES,
        };
        match self.gather(request, &outputs) {
            // The list says so.
            Err(Error::NotPrepared { .. }) => Ok(Gathered::default()),
            done => done,
        }
    }

    /// The contents of small files; those that changed since they were listed are taken out.
    fn contents(
        &self,
        request: &Request,
        style: ScopeStyle,
        params: &ExportParams,
        export: &mut Export,
    ) -> Result<Vec<Content>, Error> {
        let (session, run) = (&request.session, &request.run);
        let Some(dir) = request.workspace.scope_in(style, session, run)?.1 else {
            return Ok(Vec::new());
        };
        let most = params.max_inline_bytes.and_then(|n| u64::try_from(n).ok());
        let most = most.unwrap_or(MAX_INLINE_BYTES);
        let all = inline::contents(&dir, &export.artifacts, most);
        let mut kept = Vec::with_capacity(all.len());
        let mut contents = Vec::with_capacity(all.len());
        for (artifact, content) in std::mem::take(&mut export.artifacts).into_iter().zip(all) {
            match content {
                Ok(content) => {
                    kept.push(artifact);
                    contents.push(content);
                }
                Err(reason) => export.omitted.add(artifact.path.as_str(), reason),
            }
        }
        export.artifacts = kept;
        Ok(contents)
    }
}

/// What must be said about the scope itself.
fn say(
    request: &Request,
    style: ScopeStyle,
    scope: &ArtifactScope,
    export: &Export,
    warnings: &mut Vec<String>,
) {
    let missing = export.empty_reason == Some(EmptyReason::ScopeMissing);
    if missing {
        warnings.push(format!(
            "`{scope}` is not there, so it has nothing to deliver: it was never prepared, or somebody moved or removed it."
        ));
    }
    let (session, run) = (&request.session, &request.run);
    if style == ScopeStyle::Peer && !missing {
        warnings.push(format!(
            "`{scope}` was made by the earlier plugin, which lets several sessions share a folder: what lies there need not be this run's alone."
        ));
    } else if missing && matches!(request.workspace.peer_scope(session, run), Ok((_, Some(_)))) {
        let peer = ArtifactScope::peer(session, run);
        warnings.push(format!(
            "The earlier plugin left `{peer}`; name it in `artifactScope` to read it."
        ));
    }
}

/// A file as the earlier plugin lists it.
pub(super) fn flat(
    artifact: Artifact,
    reference: String,
    expires: i64,
    scope: &ArtifactScope,
    content: Option<Content>,
) -> FlatArtifact {
    let (content, not_inlined) = match content {
        Some(Content::Bytes(bytes)) => (Some(Base64::encode(&bytes)), None),
        Some(Content::Not(why)) => (None, Some(why)),
        None => (None, None),
    };
    FlatArtifact {
        label: artifact.path.file_name().to_owned(),
        relative_path: artifact.path,
        content_type: artifact.content_type,
        size_bytes: artifact.size,
        sha256: artifact.sha256,
        artifact_ref: reference,
        expires_at: expires,
        artifact_scope: scope.clone(),
        scope_kind: "task".to_owned(),
        encoding: content.is_some().then(|| "base64".to_owned()),
        content,
        not_inlined,
    }
}

fn of_manifest(item: &FlatArtifact) -> ManifestFile {
    ManifestFile {
        relative_path: item.relative_path.clone(),
        display_path: item.relative_path.to_string(),
        size: item.size_bytes,
        content_type: item.content_type.clone(),
        sha256: item.sha256,
        inline: item.content.is_some(),
        reference: item.artifact_ref.clone(),
    }
}

fn not_inlined(artifacts: &[FlatArtifact], warnings: &mut Vec<String>) {
    for (why, said) in [
        (
            NotInlined::OverMaxInlineBytes,
            "larger than `maxInlineBytes`",
        ),
        (NotInlined::AnswerFull, "too much for one answer"),
    ] {
        let of_kind = |item: &&FlatArtifact| item.not_inlined == Some(why);
        let count = artifacts.iter().filter(of_kind).count();
        if let Some(first) = artifacts.iter().find(of_kind) {
            let others = match count {
                1 => String::new(),
                n => format!(" and {} more", n - 1),
            };
            warnings.push(format!(
                "`{}`{others}: listed without content, because it is {said}. Read it by its reference.",
                first.relative_path
            ));
        }
    }
}
