-- +goose Up
-- Who signs in to an account. Accounts that operators made have no row here. Seeds are sealed with a key that is not in the
-- database. totp_last_step is the last time step whose code was used, so that none works twice.
CREATE TABLE people (
  account_id        text   PRIMARY KEY REFERENCES accounts (id),
  email             text   NOT NULL UNIQUE CHECK (email <> ''),
  password_hash     text   NOT NULL,
  totp_seed         text   NOT NULL DEFAULT '',
  totp_confirmed_at bigint,
  totp_last_step    bigint NOT NULL DEFAULT 0,
  reset_at          bigint,
  closed_at         bigint,
  created_at        bigint NOT NULL
);

CREATE TABLE recovery_codes (
  account_id text   NOT NULL REFERENCES people (account_id),
  hash       text   NOT NULL,
  used_at    bigint,
  PRIMARY KEY (account_id, hash)
);

-- Browsers. Of the secret in the cookie only its hash is here, and for some seconds that of the one before.
-- new_seed is the sealed seed of an authenticator that this browser sets up, until its first code.
CREATE TABLE sessions (
  id               text   PRIMARY KEY,
  token_hash       text   NOT NULL UNIQUE CHECK (length(token_hash) = 64),
  prev_hash        text,
  account_id       text   NOT NULL REFERENCES people (account_id),
  stage            text   NOT NULL CHECK (stage IN ('password', 'full')),
  created_at       bigint NOT NULL,
  seen_at          bigint NOT NULL,
  authenticated_at bigint NOT NULL,
  expires_at       bigint NOT NULL,
  agent            text   NOT NULL,
  network          text   NOT NULL,
  new_seed         text   NOT NULL DEFAULT '',
  new_seed_at      bigint,
  ended_at         bigint
);
CREATE INDEX sessions_by_prev ON sessions (prev_hash) WHERE prev_hash IS NOT NULL;
CREATE INDEX sessions_by_account ON sessions (account_id);
CREATE INDEX sessions_by_end ON sessions (expires_at);

-- Browsers that have signed in before: a sign-in from another is told by mail.
CREATE TABLE devices (
  account_id text   NOT NULL REFERENCES people (account_id),
  token_hash text   NOT NULL CHECK (length(token_hash) = 64),
  seen_at    bigint NOT NULL,
  PRIMARY KEY (account_id, token_hash)
);

-- What was sent by mail and works once. One with the purpose 'none' never works: it is written so that an address that has an
-- account takes as long as one that has none.
CREATE TABLE links (
  token_hash text   PRIMARY KEY CHECK (length(token_hash) = 64),
  purpose    text   NOT NULL,
  account_id text,
  email      text   NOT NULL,
  expires_at bigint NOT NULL,
  used_at    bigint
);
CREATE INDEX links_by_account ON links (account_id);
CREATE INDEX links_by_end ON links (expires_at);

-- Failures that slow down whoever tries to guess. A subject is a keyed hash, whether or not anybody has the account it speaks of.
CREATE TABLE attempts (
  subject  text   PRIMARY KEY,
  failures bigint NOT NULL,
  last_at  bigint NOT NULL
);
CREATE INDEX attempts_by_time ON attempts (last_at);

-- +goose Down
DROP TABLE attempts;
DROP TABLE links;
DROP TABLE devices;
DROP TABLE sessions;
DROP TABLE recovery_codes;
DROP TABLE people;
