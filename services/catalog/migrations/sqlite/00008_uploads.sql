-- +goose Up
-- Lines of files that arrive or are being applied.
CREATE TABLE uploads (
  upload   text   NOT NULL,
  begun_at bigint NOT NULL,
  place    bigint NOT NULL, -- the order of lines: place, then number
  number   bigint NOT NULL,
  size     bigint NOT NULL,
  content  text   NOT NULL, -- JSON
  PRIMARY KEY (upload, place, number)
);
CREATE INDEX uploads_begun ON uploads (begun_at);

-- +goose Down
DROP TABLE uploads;
