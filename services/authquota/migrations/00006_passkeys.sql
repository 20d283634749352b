-- +goose Up
-- Passkeys and security keys. The record has the public key and what the library keeps beside it; nothing in it is secret.
CREATE TABLE passkeys (
  id         text   PRIMARY KEY,
  account_id text   NOT NULL REFERENCES people (account_id),
  name       text   NOT NULL,
  credential text   NOT NULL UNIQUE CHECK (credential <> ''),
  record     text   NOT NULL,
  count      bigint NOT NULL,
  added_at   bigint NOT NULL,
  used_at    bigint
);
CREATE INDEX passkeys_by_account ON passkeys (account_id);

-- What a browser was asked last, for each session and purpose. A row is deleted as it is used, whatever the answer.
CREATE TABLE passkey_challenges (
  session_id text   NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  purpose    text   NOT NULL CHECK (purpose IN ('add', 'prove')),
  kept       text   NOT NULL,
  expires_at bigint NOT NULL,
  PRIMARY KEY (session_id, purpose)
);

-- +goose Down
DROP TABLE passkey_challenges;
DROP TABLE passkeys;
