-- What an operator sees of an account, newest first: its runs, its open ones, its failures (also of one runtime), its sessions.
create index runs_by_account on runs (account, num);
create index runs_open_by_account on runs (account, num) where phase <> 'closed';
create index runs_failed on runs (account, num) where status in ('failed', 'artifact_missing');
create index runs_failed_by_runtime on runs (account, runtime, num) where status in ('failed', 'artifact_missing');
create index sessions_by_account on sessions (account, num);
