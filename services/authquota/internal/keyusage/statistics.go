package keyusage

import (
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
)

// ByDay returns the outcomes of an account's requests by day.
func (s *Store) ByDay(ctx context.Context, account string, r Range) ([]DayCount, error) {
	var counts []DayCount
	err := s.db.WithContext(ctx).
		Raw("SELECT day, outcome, calls FROM usage_outcomes WHERE account_id = ? AND day BETWEEN ? AND ?",
			account, r.From, r.To).Scan(&counts).Error
	return counts, database.Outage(err)
}

// Served returns the calls of all accounts by day, oldest first, without days that have none.
func (s *Store) Served(ctx context.Context, r Range) ([]api.DayServed, error) {
	days := []api.DayServed{}
	err := s.db.WithContext(ctx).
		Raw(`SELECT day, SUM(calls) AS calls, SUM(CASE WHEN outcome = ? THEN calls ELSE 0 END) AS failed
		FROM usage_outcomes WHERE outcome IN ? AND day BETWEEN ? AND ? GROUP BY day ORDER BY day`,
			api.CallFailed, []api.CallOutcome{api.CallServed, api.CallNotFound, api.CallFailed}, r.From, r.To).Scan(&days).Error
	return days, database.Outage(err)
}

// Report returns the requests of all accounts by day and by the tier that the account has now.
func (s *Store) Report(ctx context.Context, r Range) (api.UsageReport, error) {
	var rows []struct {
		DayCount
		Granted  api.Tier
		PaidRank int // -1 if no paid period includes the present
	}
	err := s.db.WithContext(ctx).
		Raw(`SELECT u.day, u.outcome, a.tier AS granted, COALESCE(p.paid_rank, -1) AS paid_rank, SUM(u.calls) AS calls
		FROM usage_outcomes u JOIN accounts a ON a.id = u.account_id
			LEFT JOIN (SELECT holder_id, MAX(`+rank+`) AS paid_rank FROM entitlements WHERE paid_until > ? GROUP BY holder_id) p
			ON p.holder_id = a.id
		WHERE u.day BETWEEN ? AND ? GROUP BY u.day, u.outcome, a.tier, p.paid_rank`,
			database.Micros(s.db.Now()), r.From, r.To).Scan(&rows).Error
	type entry struct {
		day  string
		tier api.Tier
	}
	sums := map[entry]*api.TierUsage{}
	for _, row := range rows {
		e := entry{row.Day, row.Granted}
		if row.PaidRank >= 0 {
			e.tier = account.HigherTier(row.Granted, api.Tiers[row.PaidRank].Tier)
		}
		if sums[e] == nil {
			sums[e] = &api.TierUsage{Date: e.day, Tier: e.tier, Refused: map[api.CallOutcome]int{}}
		}
		sums[e].Calls += row.Calls
		switch GroupOf(row.Outcome) {
		case Rejected:
			sums[e].Refused[row.Outcome] += row.Calls
		case Failed:
			sums[e].Failed += row.Calls
		}
	}
	report := api.UsageReport{Days: make([]api.TierUsage, 0, len(sums))}
	for _, sum := range sums {
		report.Days = append(report.Days, *sum)
	}
	slices.SortFunc(report.Days, func(a, b api.TierUsage) int {
		return cmp.Or(cmp.Compare(a.Date, b.Date), cmp.Compare(a.Tier.Rank(), b.Tier.Rank()))
	})
	return report, database.Outage(err)
}

// rank is an SQL expression for the rank of the column tier.
var rank = func() string {
	var s strings.Builder
	s.WriteString("CASE tier")
	for i, t := range api.Tiers {
		fmt.Fprintf(&s, " WHEN '%s' THEN %d", t.Tier, i)
	}
	return s.String() + " ELSE -1 END"
}()

// UsedOn returns the requests charged to an account on a UTC day, including those of merged
// accounts.
func (s *Store) UsedOn(ctx context.Context, account string, day time.Time) (calls int, err error) {
	err = s.db.WithContext(ctx).Model(&usageRow{}).Select("COALESCE(MAX(calls), 0)").
		Where("day = ? AND account_id = ?", counter.DayOf(day), account).Scan(&calls).Error
	return calls, database.Outage(err)
}

// Busiest returns up to n keys of an account with the most requests in a range, and the sum of its
// other keys. total is the sum of all keys.
func (s *Store) Busiest(ctx context.Context, account string, r Range, n int, total Figures) (KeyCounts, error) {
	var rows []struct {
		ID, Name, Prefix, LastFour          string
		Served, NotFound, Failed, Calls, Of int
	}
	err := s.db.WithContext(ctx).Raw(`SELECT k.id, k.name, k.prefix, k.last_four, g.* FROM (
			SELECT key_id, SUM(calls) AS calls, COUNT(*) OVER () AS of,
				SUM(CASE outcome WHEN 'served' THEN calls ELSE 0 END) AS served,
				SUM(CASE outcome WHEN 'not_found' THEN calls ELSE 0 END) AS not_found,
				SUM(CASE outcome WHEN 'failed' THEN calls ELSE 0 END) AS failed
			FROM usage_keys WHERE account_id = ? AND day BETWEEN ? AND ? GROUP BY key_id ORDER BY 2 DESC, 1 LIMIT ?) g
		JOIN api_keys k ON k.id = g.key_id ORDER BY g.calls DESC, k.id`, account, r.From, r.To, n).Scan(&rows).Error
	counts := KeyCounts{Rest: total}
	for _, row := range rows {
		key := KeyCount{ID: row.ID, Name: row.Name, Shown: row.Prefix + "…" + row.LastFour}
		key.Figures[Served], key.Figures[NotFound], key.Figures[Failed] = row.Served, row.NotFound, row.Failed
		key.Figures[Rejected] = row.Calls - row.Served - row.NotFound - row.Failed
		counts.Busiest = append(counts.Busiest, key)
		for g, calls := range key.Figures {
			counts.Rest[g] -= calls
		}
		counts.Others = row.Of - len(rows)
	}
	return counts, database.Outage(err)
}

const linesAtOnce = 5000

// WriteCSV writes an account's usage in a range as RFC 4180 with a header, sorted by day and key.
// It holds no connection during a write, which may wait for a slow reader.
func (s *Store) WriteCSV(ctx context.Context, w io.Writer, account string, r Range) error {
	out := csv.NewWriter(w)
	out.UseCRLF = true
	_ = out.Write([]string{"day", "key", "key name", "outcome", "requests"}) // buffered: out.Error returns its error
	last := KeySum{Day: r.From}                                              // sorts before the first of that day
	for {
		var rows []struct {
			KeySum
			Name, Prefix, LastFour string
		}
		err := s.db.WithContext(ctx).
			Raw(`SELECT u.*, k.name, k.prefix, k.last_four FROM (
				SELECT day, key_id, outcome, calls FROM usage_keys
				WHERE account_id = ? AND day <= ? AND (day, key_id, outcome) > (?, ?, ?) ORDER BY day, key_id, outcome LIMIT ?) u
			JOIN api_keys k ON k.id = u.key_id ORDER BY u.day, u.key_id, u.outcome`,
				account, r.To, last.Day, last.Key, last.Outcome, linesAtOnce).Scan(&rows).Error
		if err != nil {
			return database.Outage(err)
		}
		for _, row := range rows {
			last = row.KeySum
			// names are user input, and other people may open the file
			name := api.EscapeFormulas(cmp.Or(row.Name, row.Prefix+"…"+row.LastFour))
			_ = out.Write([]string{last.Day, last.Key, name, string(last.Outcome), strconv.Itoa(last.Calls)})
		}
		out.Flush()
		if err := out.Error(); err != nil || len(rows) < linesAtOnce {
			return err
		}
	}
}

// SentOn returns the requests that were sent with each key of the account on a UTC day. Keys
// without requests are left out.
func (s *Store) SentOn(ctx context.Context, id string, day time.Time) (map[string]Figures, error) {
	var rows []KeySum
	err := s.db.WithContext(ctx).Find(&rows, "account_id = ? AND day = ?", id, counter.DayOf(day)).Error
	sent := make(map[string]Figures, len(rows))
	for _, r := range rows {
		of := sent[r.Key]
		of[GroupOf(r.Outcome)] += r.Calls
		sent[r.Key] = of
	}
	return sent, database.Outage(err)
}

// RetentionDays is the number of days, including today, for which outcomes by key are stored.
const RetentionDays = 400

// ChartDays is the number of days in the chart.
const ChartDays = 90

// Choices are the ranges that the page offers, in days.
var Choices = []int{1, 7, 30, 90}

// Range is a span of whole UTC days.
type Range struct {
	From, To string // inclusive
	Days     int
}

// Last returns the n days that end today.
func Last(now time.Time, n int) Range {
	now = now.UTC()
	return Range{From: counter.DayOf(now.AddDate(0, 0, 1-n)), To: counter.DayOf(now), Days: n}
}

// fewestDays is the shortest span of a chart.
const fewestDays = 14

// Since returns the bars from the first day with requests on, and at least those of the last two
// weeks.
func Since(bars []Bar) []Bar {
	first := slices.IndexFunc(bars, func(b Bar) bool { return b.Total() > 0 })
	if first < 0 {
		first = len(bars)
	}
	return bars[max(0, min(first, len(bars)-fewestDays)):]
}

// ParseDays parses one of Choices. It returns fallback for other values.
func ParseDays(s string, fallback int) int {
	if n, err := strconv.Atoi(s); err == nil && slices.Contains(Choices, n) {
		return n
	}
	return fallback
}

// Includes reports whether the range contains day.
func (r Range) Includes(day string) bool { return r.From <= day && day <= r.To }

// DayCount is the number of requests of an account with one outcome on one day.
type DayCount struct {
	Day     string
	Outcome api.CallOutcome
	Calls   int
}

// Bar is one day of a chart.
type Bar struct {
	Day string
	Figures
}

// Bars returns the days of a range, oldest first, including days without requests. It ignores
// counts of other days.
func Bars(r Range, counts []DayCount) []Bar {
	bars := make([]Bar, 0, r.Days)
	at := make(map[string]int, r.Days)
	first, _ := time.Parse(time.DateOnly, r.From) // made by Last
	for i := range r.Days {
		day := counter.DayOf(first.AddDate(0, 0, i))
		at[day] = i
		bars = append(bars, Bar{Day: day})
	}
	for _, c := range counts {
		if i, shown := at[c.Day]; shown {
			bars[i].Figures[GroupOf(c.Outcome)] += c.Calls
		}
	}
	return bars
}

// Sum returns the sum of the bars.
func Sum(bars []Bar) Figures {
	var sum Figures
	for _, b := range bars {
		for g, calls := range b.Figures {
			sum[g] += calls
		}
	}
	return sum
}

// OutcomeCount is the number of requests with one outcome.
type OutcomeCount struct {
	Explained

	Calls int
}

// ByOutcome adds up the days of a range by outcome, in the order of api.CallOutcomes. It omits
// outcomes without requests.
func ByOutcome(r Range, counts []DayCount) []OutcomeCount {
	sums := map[api.CallOutcome]int{}
	for _, c := range counts {
		if r.Includes(c.Day) {
			sums[c.Outcome] += c.Calls
		}
	}
	var list []OutcomeCount
	for _, o := range api.CallOutcomes {
		if sums[o] > 0 {
			list = append(list, OutcomeCount{Explain(o), sums[o]})
		}
	}
	return list
}

// KeyCount is the usage of one key.
type KeyCount struct {
	ID    string
	Name  string // may be empty
	Shown string // how it is displayed, such as oda_live_…A1b2

	Figures
}

// KeyCounts are the most used keys of an account, and the total of all others.
type KeyCounts struct {
	Busiest []KeyCount
	Others  int // number of other keys with requests
	Rest    Figures
}

// Group is a group of outcomes. A chart has one color for each.
type Group int

const (
	Served Group = iota
	NotFound
	Rejected // for a reason the caller can fix
	Failed   // by an error of the service
)

// Groups is the number of groups.
const Groups = 4

// AllGroups are the groups in the order of pages.
var AllGroups = []Group{Served, NotFound, Rejected, Failed}

// Names are the labels of the groups in pages and files, by Group.
var Names = [Groups]string{"Served", "Not found", "Rejected", "Failed"}

func (g Group) String() string { return Names[g] }

// GroupOf returns the group of an outcome.
func GroupOf(o api.CallOutcome) Group {
	switch o {
	case api.CallServed:
		return Served
	case api.CallNotFound:
		return NotFound
	case api.CallFailed:
		return Failed
	default:
		return Rejected
	}
}

// Figures are numbers of requests by Group.
type Figures [Groups]int

// Charged returns the requests that count against the daily quota.
func (f Figures) Charged() int { return f[Served] + f[NotFound] }

// Total returns the requests of all groups.
func (f Figures) Total() int {
	total := 0
	for _, calls := range f {
		total += calls
	}
	return total
}

// Explained is the explanation of an outcome for consumers.
type Explained struct {
	Outcome api.CallOutcome
	Group   Group
	Name    string
	Meaning string
	Remedy  string // empty if there is nothing to do
	Code    problem.Code
	Charged bool // whether such requests count against the daily quota
}

// explained has the names of outcomes and, where an outcome has no error code or several, the rest
// of the explanation.
var explained = map[api.CallOutcome]Explained{
	api.CallServed:   {Name: "Served", Meaning: "The response was sent, or had not changed since the last request (304)."},
	api.CallNotFound: {Name: "Not found", Code: problem.NotFound},
	api.CallBadRequest: {Name: "Bad request", Code: problem.InvalidParameter,
		Meaning: "The path or the query string contained something that this operation does not accept, or a cursor expired.",
		Remedy:  "The error message names the problem. Correct the request before you send it again."},
	api.CallFailed: {Name: "Failed", Code: problem.ServiceUnavailable,
		Meaning: "The service was unavailable or failed, or the client closed the connection before the response.",
		Remedy:  "Retry after the number of seconds in Retry-After, with exponential backoff."},
	api.CallSubscriptionRequired: {Name: "Not in the plan"}, api.CallAccountSuspended: {Name: "Account suspended"},
	api.CallExpiredAPIKey: {Name: "Key expired"}, api.CallRevokedAPIKey: {Name: "Key revoked"},
	api.CallMinuteLimitReached: {Name: "Minute limit"}, api.CallDailyLimitReached: {Name: "Daily limit"},
	api.CallServiceCapacityReached: {Name: "Shared capacity"},
}

// Explain returns the explanation of an outcome. Outcomes with one error code use the text of the
// error code table.
func Explain(o api.CallOutcome) Explained {
	e := explained[o]
	if e.Meaning == "" {
		e.Code = cmp.Or(e.Code, problem.Code(o))
		at := slices.IndexFunc(problem.Table, func(entry problem.Entry) bool { return entry.Code == e.Code })
		if at >= 0 {
			e.Meaning, e.Remedy = problem.Table[at].Meaning, problem.Table[at].Remedy
		}
	}
	e.Outcome, e.Group, e.Charged = o, GroupOf(o), o.Charged()
	return e
}
