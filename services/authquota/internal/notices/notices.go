// Package notices defines the mails that a person can choose, and posts those about usage.
//
// Each Kind has a Choice with its default. Notify posts a mail of a kind to a person who wants it.
// An Announcement is a mail of the operator to every person, posted in batches.
package notices

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/database"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountdb"
)

// Kind is a kind of notice.
type Kind string

const (
	DayNearlyUsed Kind = "day-80"
	DayUsed       Kind = "day-100"
	MinuteLimit   Kind = "minute-limit"
	KeyExpiry     Kind = "key-expiry"
	PlanRenewal   Kind = "plan-renewal"
	PaymentFailed Kind = "payment-failed"
	APIChange     Kind = "api-change"
)

// Choice is a kind as the person sees it.
type Choice struct {
	Kind    Kind
	Label   string
	Default bool // whether a person who chose nothing gets it
}

// All are the kinds, in the order of the page.
var All = []Choice{
	{DayNearlyUsed, "80 % of the day's requests are used", false},
	{DayUsed, "All requests of the day are used", false},
	{MinuteLimit, "The minute limit was reached repeatedly, at most one email a day", false},
	{KeyExpiry, "A key expires in 30 days, in 7 days and within a day", true},
	{PlanRenewal, "Your plan was renewed", false},
	{PaymentFailed, "A payment for your plan failed", true},
	{APIChange, "The API changes: new features, deprecations and new versions", true},
}

// MinuteLimitCalls is the number of requests rejected by the minute limit on one day that make a
// notice.
const MinuteLimitCalls = 10

// Retention is the time for which sent notices are remembered: longer than any event lasts.
const Retention = 40 * 24 * time.Hour

type choiceRow struct {
	AccountID string `gorm:"primaryKey"`
	Kind      string `gorm:"primaryKey"`
	Wanted    bool
}

// TableName implements gorm's Tabler.
func (choiceRow) TableName() string { return "notice_choices" }

// choices returns which notices an account gets: the person's choices, and the defaults of the
// others.
func choices(db *gorm.DB, accountID string) (map[Kind]bool, error) {
	wanted := make(map[Kind]bool, len(All))
	for _, c := range All {
		wanted[c.Kind] = c.Default
	}
	var rows []choiceRow
	err := db.Find(&rows, "account_id = ?", accountID).Error
	for _, r := range rows {
		wanted[Kind(r.Kind)] = r.Wanted
	}
	return wanted, err
}

// Notify is accountdb.Tx.Notify for a kind of notice that the person can choose.
func Notify(tx *accountdb.Tx, kind Kind, accountID, template string, data map[string]string) error {
	wanted, err := choices(tx.DB, accountID)
	if err != nil || !wanted[kind] {
		return err
	}
	return tx.Notify(accountID, template, data)
}

type noticeEventRow struct {
	AccountID string `gorm:"primaryKey"`
	Kind      string `gorm:"primaryKey"`
	Event     string `gorm:"primaryKey"`
	SentAt    int64
}

func (noticeEventRow) TableName() string { return "notice_events" }

// claim reports whether the notice about an event was not claimed before. Concurrent claims wait
// for each other, so one of them succeeds, if its tx is committed.
func claim(tx *accountdb.Tx, kind Kind, accountID, event string) (bool, error) {
	insert := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&noticeEventRow{
		accountID, string(kind), event, database.Micros(tx.Now),
	})
	return insert.RowsAffected > 0, insert.Error
}

// NotifyOnce is Notify for an event that several processes may notice, or one repeatedly.
func NotifyOnce(tx *accountdb.Tx, kind Kind, accountID, event, template string, data map[string]string) error {
	if first, err := claim(tx, kind, accountID, event); err != nil || !first {
		return err
	}
	return Notify(tx, kind, accountID, template, data)
}

// Store stores choices. It reads accounts and their usage from the tables of other features.
type Store struct {
	db    *accountdb.DB
	tiers account.TierTable
}

// NewStore returns a Store for installations with these tiers.
func NewStore(db *accountdb.DB, tiers account.TierTable) *Store { return &Store{db, tiers} }

// Choices returns which notices an account gets.
func (s *Store) Choices(ctx context.Context, accountID string) (map[Kind]bool, error) {
	wanted, err := choices(s.db.WithContext(ctx), accountID)
	return wanted, database.Outage(err)
}

// Choose stores the choice about each kind of notice.
func (s *Store) Choose(ctx context.Context, accountID string, wanted map[Kind]bool) error {
	return s.db.Change(ctx, func(tx *accountdb.Tx) error {
		var rows []choiceRow
		detail := map[string]any{}
		for _, c := range All {
			rows = append(rows, choiceRow{AccountID: accountID, Kind: string(c.Kind), Wanted: wanted[c.Kind]})
			detail[string(c.Kind)] = wanted[c.Kind]
		}
		return errors.Join(tx.Clauses(clause.OnConflict{UpdateAll: true}).
			Create(&rows).Error, tx.Record(accountID, "notices.choose", accountID, detail))
	})
}

type due struct {
	AccountID string
	Kind      Kind
	Calls     int
}

const unsent = ` AND c.wanted AND NOT EXISTS (SELECT 1 FROM notice_events e WHERE e.account_id = c.account_id AND e.kind
	= c.kind AND e.event = ?)`

// NotifyUsage posts the notices about today's usage, each once a day. Several processes may call it
// concurrently.
func (s *Store) NotifyUsage(ctx context.Context) error {
	day := counter.DayOf(s.db.Now())
	return errors.Join(s.notifyDay(ctx, day), s.notifyMinute(ctx, day))
}

// notifyDay handles the notice about the whole quota of an account before the one about 80 %, which
// would come too late after it.
func (s *Store) notifyDay(ctx context.Context, day string) error {
	var rows []due
	err := s.db.WithContext(ctx).Raw(`SELECT c.account_id, c.kind, u.calls FROM notice_choices c
		JOIN usage_days u ON u.account_id = c.account_id AND u.day = ? WHERE c.kind IN ?`+unsent+` ORDER BY c.account_id, c.kind`,
		day, []Kind{DayUsed, DayNearlyUsed}, day).Scan(&rows).Error
	failures := []error{database.Outage(err)} // an error of one account does not block the others
	for _, r := range rows {
		failures = append(failures, s.notifyQuota(ctx, day, r))
	}
	return errors.Join(failures...)
}

func (s *Store) notifyQuota(ctx context.Context, day string, notice due) error {
	a, err := account.Read(s.db.WithContext(ctx), notice.AccountID)
	if err != nil {
		return database.Outage(err)
	}
	limits, known := s.tiers[a.TierAt(s.db.Now())]
	if !known {
		return fmt.Errorf("account %s has an unknown tier", a.ID)
	}
	percent := map[Kind]int{DayUsed: 100, DayNearlyUsed: 80}[notice.Kind]
	if notice.Calls*100 < limits.PerDay*percent {
		return nil
	}
	return s.db.Change(ctx, func(tx *accountdb.Tx) error {
		err := NotifyOnce(tx, notice.Kind, a.ID, day, "quota-used", map[string]string{
			"percent": strconv.Itoa(percent), "used": strconv.Itoa(notice.Calls), "limit": strconv.Itoa(limits.PerDay),
		})
		if err == nil && notice.Kind == DayUsed {
			_, err = claim(tx, DayNearlyUsed, a.ID, day)
		}
		return err
	})
}

func (s *Store) notifyMinute(ctx context.Context, day string) error {
	var rows []due
	err := s.db.WithContext(ctx).Raw(`SELECT c.account_id, o.calls FROM notice_choices c
		JOIN usage_outcomes o ON o.account_id = c.account_id AND o.day = ? AND o.outcome = ? WHERE c.kind = ? AND o.calls >=
			?`+unsent,
		day, api.CallMinuteLimitReached, MinuteLimit, MinuteLimitCalls, day).Scan(&rows).Error
	failures := []error{database.Outage(err)}
	for _, r := range rows {
		failures = append(failures, s.db.Change(ctx, func(tx *accountdb.Tx) error {
			return NotifyOnce(tx, MinuteLimit, r.AccountID, day, "minute-limit", map[string]string{
				"calls": strconv.Itoa(r.Calls),
			})
		}))
	}
	return errors.Join(failures...)
}

// DeleteExpired forgets which notices were sent long ago.
func (s *Store) DeleteExpired(ctx context.Context) error {
	return database.Outage(s.db.WithContext(ctx).Where("sent_at < ?", database.Micros(s.db.Now().Add(-Retention))).
		Delete(&noticeEventRow{}).Error)
}
