//! Deciding what may be a run's, without touching the scope.

use std::collections::{BTreeMap, BTreeSet};

use threadline_contract::{ArtifactPath, OmitReason};
use threadline_files::{FileKind, Reason, Root, Stamp, walk::Found};

use super::{
    Gathered, Outputs, SNAPSHOT,
    before::Before,
    places::{OpenRoot, Places, Where},
    scan::{self, Seen},
};
use crate::{
    Error,
    dirs::not_output,
    ignore::{IGNORE_FILE, Ignore},
    omissions::{of_problem, of_reason},
    skip::{collects_file, collects_folder, exports_file, gateways_own, outputs_folder},
    window::Window,
};

/// A file that may be the run's.
pub(super) struct Wanted<'a, To = ArtifactPath> {
    pub source: &'a Root,
    pub from: String,
    /// Where it goes in the scope.
    pub to: To,
    /// The path as it is told.
    pub shown: String,
    pub stamp: Stamp,
    /// Whether the runtime names it.
    pub named: bool,
    /// Whether it lies in an expected folder.
    pub in_expected_dir: bool,
}

/// What may be the run's, in the order of where it goes, each file once.
pub(super) fn wanted<'a>(
    places: &'a Places,
    outputs: &Outputs<'_>,
    window: &Window,
    before: &Before,
    fallback: bool,
    out: &mut Gathered,
) -> Result<Vec<Wanted<'a>>, Error> {
    let mut planner = Planner {
        places,
        window,
        before,
        out,
        wanted: BTreeMap::new(),
    };
    let mut named = planner.sort(outputs);
    if outputs.scan {
        for (root, named) in places.roots.iter().zip(&mut named.in_roots) {
            planner.root(root, named, outputs.only.is_none());
        }
    }
    if let Some(dirs) = outputs.dirs {
        for dir in dirs.usable(&mut planner.out.warnings) {
            planner.dir(dir, &mut named.in_workspace, fallback)?;
        }
    }
    for path in named.in_workspace {
        let to = path.clone();
        planner.rest(None, path.clone(), to, path);
    }
    Ok(planner.wanted.into_values().collect())
}

struct Planner<'a, 'b> {
    places: &'a Places,
    window: &'b Window,
    before: &'b Before,
    out: &'b mut Gathered,
    wanted: BTreeMap<String, Wanted<'a>>,
}

/// Named files by the folder that they lie in.
struct Named {
    in_roots: Vec<BTreeSet<String>>,
    in_workspace: BTreeSet<String>,
}

impl<'a> Planner<'a, '_> {
    fn omit(&mut self, shown: impl Into<String>, reason: OmitReason) {
        self.out.collected.omitted.add(shown, reason);
    }

    /// Sorts what is named by where it lies.
    fn sort(&mut self, outputs: &Outputs<'_>) -> Named {
        let mut named = Named {
            in_roots: vec![BTreeSet::new(); self.places.roots.len()],
            in_workspace: BTreeSet::new(),
        };
        for text in outputs.only.unwrap_or_default() {
            match self.places.of(text) {
                _ if !text.starts_with('/') => {
                    self.omit(text, OmitReason::OutsideScope);
                    let said =
                        format!("`{text}` is not an absolute path, so it was not collected.");
                    self.out.warnings.push(said);
                }
                Where::Root(i, path) if self.is_missing(i, &path) => {
                    self.omit(text, OmitReason::Vanished);
                }
                Where::Root(i, path) => insert(&mut named.in_roots, i, path),
                _ => {
                    self.omit(text, OmitReason::OutsideScope);
                    let said = format!(
                        "`{text}` lies outside the output folders, so it was not collected."
                    );
                    self.out.warnings.push(said);
                }
            }
        }
        for text in &outputs.testimony.written {
            match self.places.of(text) {
                Where::Scope => {}
                Where::Root(i, path) => insert(&mut named.in_roots, i, path),
                Where::Workspace(path) => {
                    // An export looks into its folders alone. What the run wrote elsewhere in the
                    // workspace comes with collecting; but not from the folders of other runs.
                    let within = match outputs.dirs {
                        Some(dirs) => dirs.hold(&path),
                        None => !not_output(&path),
                    };
                    if within {
                        named.in_workspace.insert(path);
                    } else if self.is_file(&path) {
                        self.omit(path, OmitReason::OutsideScope);
                    }
                }
                Where::Elsewhere => self.omit(text, OmitReason::OutsideScope),
            }
        }
        named
    }

    fn is_missing(&self, root: usize, path: &str) -> bool {
        let root = self.places.roots.get(root);
        let stat = root.map(|root| root.root.stat(path));
        matches!(stat, Some(Err(e)) if e.reason() == Reason::NotFound)
    }

    fn is_file(&self, path: &str) -> bool {
        let stat = self.places.workspace.stat(path);
        stat.is_ok_and(|stat| stat.kind != FileKind::Dir)
    }

    /// Looks through an output root, or only at what is named in it.
    fn root(&mut self, root: &'a OpenRoot, named: &mut BTreeSet<String>, scan: bool) {
        let shown = |path: &str| format!("{}/{path}", root.name);
        if scan {
            let whole = scan::each(&root.root, scan::MOST, outputs_folder, |seen| match seen {
                Seen::File(path, stamp) => {
                    let is_named = named.remove(&path);
                    let in_run = self.window.holds(&stamp);
                    if gateways_own(&path) || !(is_named || collects_file(&path)) {
                        if in_run {
                            self.omit(shown(&path), OmitReason::Skipped);
                        }
                    } else if in_run {
                        self.take_from_root(root, path, stamp, is_named);
                    } else if is_named {
                        self.omit(shown(&path), OmitReason::ChangedOutsideRun);
                    }
                    // What did not change is not this run's, and its name is nobody's business.
                }
                Seen::Other(found) => {
                    let is_named = named.remove(found.path());
                    self.other(&root.root, found, is_named, &shown);
                }
            });
            if !whole {
                self.too_large(&shown(""));
            }
        }
        for path in std::mem::take(named) {
            if gateways_own(&path) {
                self.omit(shown(&path), OmitReason::Skipped);
                continue;
            }
            let told = shown(&path);
            self.rest(Some(root), path, format!("{SNAPSHOT}/{told}"), told);
        }
    }

    fn take_from_root(&mut self, root: &'a OpenRoot, path: String, stamp: Stamp, named: bool) {
        self.take(Wanted {
            source: &root.root,
            to: format!("{SNAPSHOT}/{}/{path}", root.name),
            shown: format!("{}/{path}", root.name),
            from: path,
            stamp,
            named,
            in_expected_dir: false,
        });
    }

    /// Looks through a folder of the workspace. What lay there before the run and is not named is told
    /// only in the fallback: a run that filled its own folder is not asked about others' files.
    fn dir(
        &mut self,
        dir: &ArtifactPath,
        named: &mut BTreeSet<String>,
        fallback: bool,
    ) -> Result<(), Error> {
        let places = self.places;
        let folder = match places.workspace.open_dir(dir.as_str()) {
            Ok(folder) => folder,
            Err(e) => {
                match e.reason() {
                    Reason::NotFound | Reason::NotDirectory => {}
                    reason => self.omit(format!("{dir}/"), of_reason(reason)),
                }
                return Ok(());
            }
        };
        let mut ignore = Ignore::of(&folder)?;
        self.out.warnings.append(&mut ignore.warnings);
        let ignore_file = format!("{dir}/{IGNORE_FILE}");
        let shown = |path: &str| format!("{dir}/{path}");
        let whole = scan::each(&folder, scan::MOST, collects_folder, |seen| match seen {
            Seen::File(path, stamp) => {
                let full = shown(&path);
                let is_named = named.remove(&full);
                if self.wanted.contains_key(&full) {
                    return;
                }
                if !self.wrote(&full, &stamp) {
                    if is_named || fallback {
                        self.omit(full, OmitReason::ChangedOutsideRun);
                    }
                } else if full == ignore_file || ignore.matches(&full) {
                    self.omit(full, OmitReason::Ignored);
                } else if !(is_named || collects_file(&full)) {
                    self.omit(full, OmitReason::Skipped);
                } else {
                    self.take(Wanted {
                        source: &places.workspace,
                        from: full.clone(),
                        to: full.clone(),
                        shown: full,
                        stamp,
                        named: is_named,
                        in_expected_dir: true,
                    });
                }
            }
            Seen::Other(found) => {
                let is_named = named.contains(&shown(found.path()));
                self.other(&folder, found, is_named, &shown);
            }
        });
        if !whole {
            self.too_large(&shown(""));
        }
        Ok(())
    }

    fn take(&mut self, found: Wanted<'a, String>) {
        match ArtifactPath::to_deliver(found.to.clone()) {
            Ok(path) => {
                let Wanted {
                    source,
                    from,
                    to,
                    shown,
                    stamp,
                    named,
                    in_expected_dir,
                } = found;
                let wanted = Wanted {
                    source,
                    from,
                    to: path,
                    shown,
                    stamp,
                    named,
                    in_expected_dir,
                };
                self.wanted.entry(to).or_insert(wanted);
            }
            Err(_) => self.omit(found.shown, OmitReason::UnsafeName),
        }
    }

    /// Whether a file of the workspace was written in the run.
    fn wrote(&self, path: &str, stamp: &Stamp) -> bool {
        self.window.holds(stamp) && !self.before.holds(path, stamp)
    }

    /// A named file that no walk came upon: in a folder that is not entered, or beyond the limit. It lies
    /// in the workspace, if not in an output root.
    fn rest(&mut self, root: Option<&'a OpenRoot>, from: String, to: String, shown: String) {
        let source = root.map_or(&self.places.workspace, |root| &root.root);
        let in_run = |stamp: &Stamp| match root {
            Some(_) => self.window.holds(stamp),
            None => self.wrote(&from, stamp),
        };
        match source.stat(&from) {
            Ok(stat) => match stat.kind {
                FileKind::File if !exports_file(&from) => self.omit(shown, OmitReason::Skipped),
                FileKind::File if !in_run(&stat.stamp) => {
                    self.omit(shown, OmitReason::ChangedOutsideRun);
                }
                FileKind::File => self.take(Wanted {
                    source,
                    from,
                    to,
                    shown,
                    stamp: stat.stamp,
                    named: true,
                    in_expected_dir: false,
                }),
                FileKind::Symlink => self.omit(shown, OmitReason::Symlink),
                FileKind::Special => self.omit(shown, OmitReason::SpecialFile),
                // A folder is not a file that was written.
                FileKind::Dir => {}
            },
            // A scratch file that the run removed again was not left out: it is not there.
            Err(e) if matches!(e.reason(), Reason::NotFound | Reason::NotDirectory) => {}
            Err(e) => self.omit(shown, of_reason(e.reason())),
        }
    }

    fn other(
        &mut self,
        folder: &Root,
        found: Found,
        is_named: bool,
        shown: &impl Fn(&str) -> String,
    ) {
        // As with files: what did not change is not this run's.
        let is_old = |stamp: Option<Stamp>| {
            !is_named && stamp.is_some_and(|stamp| !self.window.holds(&stamp))
        };
        match found {
            Found::File { .. } => {}
            Found::NotEntered { path } => {
                let stat = folder.stat(&path);
                if !is_old(stat.ok().map(|stat| stat.stamp)) {
                    self.omit(shown(&path), OmitReason::Skipped);
                }
            }
            Found::Problem {
                path,
                problem,
                stamp,
            } => {
                let stamp = stamp.or_else(|| folder.stat(&path).ok().map(|stat| stat.stamp));
                if !is_old(stamp) {
                    self.omit(shown(&path), of_problem(problem));
                }
            }
        }
    }

    fn too_large(&mut self, shown: &str) {
        self.omit(shown, OmitReason::OverLimit);
        let said = format!("`{shown}` holds so many files that not all of them were looked at.");
        self.out.warnings.push(said);
    }
}

fn insert(all: &mut [BTreeSet<String>], i: usize, path: String) {
    if let Some(set) = all.get_mut(i) {
        set.insert(path);
    }
}
