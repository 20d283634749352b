// Package counter defines the layout of the counters in Redis. Two services share them: the gateway
// checks and increments them for each call; authquota copies them to its ledger and increments the
// epochs.
//
//	{oda}:day:2026-11-20       hash: account id -> calls charged on that UTC day, and the fields
//	                           ServiceField, BaseField and LatestField
//	{oda}:changed:2026-11-20   set: fields of the day's hash that grew since authquota copied them
//	                           to its ledger
//	{oda}:restore:2026-11-20:… hash: the counters of a lost day while authquota restores them;
//	                           renamed when complete
//	{oda}:minute:acc_...       list: admission times of one account in microseconds since 1970,
//	                           newest first
//	{oda}:clock                hash: correction of the Redis clock after a step, see clock.lua of
//	                           the gateway
//	{oda}:epochs               hash: account id -> epoch, State(account id) -> its state unless it
//	                           is active, EpochsMark -> mark of authquota's database, see package
//	                           setback: the hash has every account as of that change
//	{oda}:marks                hash: service -> mark of its database that gateways have seen
//	{oda}:merged               hash: id of a merged account -> id of the account that took over its
//	                           keys; refunds of charges to the merged account go to the other
//
// Any change to what an account may do increments its epoch: a revoked key, a suspension, a new
// tier. A principal resolved under another epoch is stale.
//
// All keys have the same hash tag, so that one script can use several of them on a Redis cluster.
// All keys expire.
package counter

import "time"

// Tag is the common prefix of all keys. A Redis cluster stores keys with the same tag on one node.
const Tag = "{oda}"

// ServiceField is the field of a day's hash with the calls of all accounts. It is never an account
// id.
const ServiceField = "*"

// BaseField is the field of a day's hash with the calls charged to accounts of the base tier,
// whatever their tier is now. It is never an account id.
const BaseField = "%"

// LatestField is the field of a day's hash with the time of its latest admission in microseconds
// since 1970. Admission does not use an earlier time, unless that one is more than five seconds in
// the future.
const LatestField = "@"

// Epochs is the key of the hash of epochs.
const Epochs = Tag + ":epochs"

// EpochsMark is the field of the hash of epochs with the mark of authquota's database. It is never
// an account id.
const EpochsMark = "@"

// State returns the field of the hash of epochs with the state of an account. It is never an
// account id.
func State(account string) string { return "!" + account }

// States of accounts in the hash of epochs. An active account has none.
const (
	SuspendedState = "s"
	ClosedState    = "c"
)

// Marks is the key of the hash of marks that gateways have seen.
const Marks = Tag + ":marks"

// Clock is the key of the hash with the correction of the Redis clock.
const Clock = Tag + ":clock"

// Merged is the key of the hash of merged accounts.
const Merged = Tag + ":merged"

// Changed returns the key of the counters of a day that the ledger lacks. Every script that
// increases one adds it in the same step.
func Changed(day string) string { return Tag + ":changed:" + day }

// Expiry of the keys after their latest write.
const (
	DayTTL    = 72 * time.Hour
	EpochsTTL = 90 * 24 * time.Hour // of marks, too: their owner may be stopped for a restore
)

// Day returns the key of the counters of one UTC day, in the format of DayOf.
func Day(day string) string { return Tag + ":day:" + day }

// Restore returns the key of the counters of a day while a process restores them from the ledger.
// id is of its attempt.
func Restore(day, id string) string { return Tag + ":restore:" + day + ":" + id }

// DayOf returns the UTC day of t, such as 2026-11-20.
func DayOf(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// Window returns the key of the admission times of one account.
func Window(account string) string { return Tag + ":minute:" + account }
