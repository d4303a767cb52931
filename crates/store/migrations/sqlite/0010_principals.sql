-- Who did it, as JSON ({"kind", "id", "label"}). Null: it was done before this was noted.
alter table runs add column begun_by text;
alter table runs add column cancel_requested_by text;
alter table sessions add column closed_by text;
alter table questions add column closed_by_principal text;
alter table deletions add column asked_by text;
alter table tokens add column made_by text;
-- What a token may do, as words.
alter table tokens add column scopes text not null default 'read write admin';
-- The token with which a browser signed in: it opens nothing any more once that one is revoked.
alter table tokens add column parent text;
