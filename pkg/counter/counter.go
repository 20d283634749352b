// Package counter is the layout of the counters in Redis, which two services share: the gateway admits calls against them, and
// authquota copies them to its ledger and raises the epochs.
//
//	{oda}:day:2026-11-20   hash: account id -> calls charged on that UTC day, ServiceField -> calls of all accounts, and
//	                       LatestField -> time of the latest admission in microseconds since 1970, and
//	                       Moved(account id) -> 1 where the account's calls of the day count for another one
//	{oda}:minute:acc_...   list: admission times of one account in microseconds since 1970, newest first
//	{oda}:epochs           hash: account id -> epoch
//	{oda}:merged           hash: account id -> id of the account that has taken over its keys; what is given back to the first
//	                       goes to the second
//
// The epoch of an account changes whenever something changes that decides what its calls may do: a key revoked, the account
// suspended or resumed, its tier. Whoever holds an answer made under another epoch holds one that is out of date.
//
// All keys carry the same hash tag, so that one script may use them together on a Redis cluster, and all expire.
package counter

import "time"

// Tag is what all keys begin with; a Redis cluster keeps keys with the same tag on one node.
const Tag = "{oda}"

// ServiceField is the field of a day's hash that counts the calls of all accounts. No account id looks like it.
const ServiceField = "*"

// LatestField is the field of a day's hash with the time of its latest admission, behind which the clock may not fall back.
const LatestField = "@"

// Epochs is the key of the hash of epochs.
const Epochs = Tag + ":epochs"

// Merged is the key of the hash of accounts that were taken over.
const Merged = Tag + ":merged"

// Moved is the field of a day's hash which tells that the account's calls of that day were added to those of the account that took
// it over. No account id looks like it.
func Moved(account string) string { return "+" + account }

// How long the keys live after they were last written.
const (
	DayTTL    = 72 * time.Hour
	EpochsTTL = 48 * time.Hour
)

// Day is the key of the counters of one UTC day, written as DayOf does.
func Day(day string) string { return Tag + ":day:" + day }

// DayOf is the UTC day that t falls on, as 2026-11-20.
func DayOf(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// Window is the key of the admission times of one account.
func Window(account string) string { return Tag + ":minute:" + account }
