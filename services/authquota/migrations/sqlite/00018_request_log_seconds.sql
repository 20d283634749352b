-- +goose Up
-- The latest requests of each key, for its holder: a row has those of one second that came in one batch. They follow their key when accounts
-- are merged. No reference to keys: a batch may name keys that this database does not have, and no row lives longer than a week.
CREATE TABLE request_log_seconds (
  key_id   TEXT    NOT NULL,
  second   INTEGER NOT NULL, -- since 1970
  batch    TEXT    NOT NULL, -- id of its first request, so that a batch that is sent again adds nothing
  calls    INTEGER NOT NULL,
  requests BLOB    NOT NULL, -- JSON array, as gzip or plain
  PRIMARY KEY (key_id, second, batch)
) STRICT, WITHOUT ROWID;

INSERT INTO request_log_seconds SELECT key_id, at / 1000000, request_id, 1, CAST(json_array(json_object('id', request_id, 'at', at,
  'route', route, 'params', params, 'status', status, 'code', code, 'duration', duration)) AS BLOB) FROM request_log;
-- request_log remains for the replicas that are not upgraded yet. A later release drops it.

-- +goose Down
DROP TABLE request_log_seconds;
