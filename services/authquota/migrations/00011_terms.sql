-- Which versions of the terms of use an account accepted, and when. The rows stay when the account is closed.

-- +goose Up
CREATE TABLE terms_acceptances (
  account_id  text   NOT NULL REFERENCES people (account_id),
  version     text   NOT NULL CHECK (version <> ''),
  accepted_at bigint NOT NULL,
  PRIMARY KEY (account_id, version)
);

-- +goose Down
DROP TABLE terms_acceptances;
