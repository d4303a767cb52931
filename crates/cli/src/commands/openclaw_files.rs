//! The plugin's files, carried inside the program: an installation needs nothing else.

/// A file of the plugin, taken from `openclaw-plugin/` in the project.
macro_rules! plugin_files {
    ($($name:literal),+ $(,)?) => {
        [$(($name, include_str!(concat!("../../../../openclaw-plugin/", $name)))),+]
    };
}

/// Every file that the gateway needs, by its path in the plugin's folder.
pub(super) const FILES: [(&str, &str); 23] = plugin_files![
    "index.js",
    "openclaw.plugin.json",
    "package.json",
    "src/command.js",
    "src/commands.js",
    "src/deeds.js",
    "src/download.js",
    "src/hooks.js",
    "src/judge.js",
    "src/kept.js",
    "src/keys.js",
    "src/lines.js",
    "src/mapping.js",
    "src/methods.js",
    "src/program.js",
    "src/read.js",
    "src/refusal.js",
    "src/runs.js",
    "src/sessions.js",
    "src/sidecar.js",
    "src/tasks.js",
    "src/tool.js",
    "src/watch.js",
];
