package keys

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/apikey"
	"opportunity.internal/pkg/jsonlines"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/account"
	"opportunity.internal/services/authquota/internal/accountdb"
)

// Older is a line of an import.
type Older struct {
	api.OlderKey

	Line int `json:"-"`
}

const (
	maxPrefix = 20
	maxWarned = 20 // lines listed in a warning
)

// ReadOlder reads and validates every line of an import. The report lists the rejected lines. The
// error is an error of r.
func ReadOlder(r io.Reader) (keys []Older, report api.ImportReport, err error) {
	first := map[string]int{} // line where a hash was first seen
	for in, err := range jsonlines.Read[Older](r) {
		if err != nil {
			return nil, report, err
		}
		key, problems := in.Value, in.Problems
		key.Line = in.Number
		if len(problems) == 0 {
			key.check(&problems)
		}
		if at, twice := first[key.SHA256]; twice && key.SHA256 != "" {
			problems.Add("sha256", "is on line %d already", at)
		} else {
			first[key.SHA256] = in.Number
		}
		if len(problems) > 0 {
			RejectLine(&report, in.Number, problems)
			continue
		}
		keys = append(keys, key)
	}
	return keys, report, nil
}

// RejectLine adds a line to the report, or counts it. The report has the line number and no hash.
func RejectLine(report *api.ImportReport, line int, problems api.Problems) {
	if len(report.Rejected) == api.MaxReported {
		report.Omitted++
		return
	}
	report.Rejected = append(report.Rejected, api.RejectedLine{Line: line, Problems: problems})
}

func (k *Older) check(p *api.Problems) {
	hash, ok := apikey.ParseOlder(k.SHA256)
	if !ok {
		p.Add("sha256", "must be the SHA-256 of the key in hexadecimal, 64 characters")
	}
	k.SHA256 = string(hash)
	if n := utf8.RuneCountInString(k.Prefix); n > maxPrefix || strings.ContainsFunc(k.Prefix, unprintable) {
		p.Add("prefix", "must have at most %d printable characters", maxPrefix)
	}
	if strings.HasPrefix(k.Prefix, apikey.Live) || strings.HasPrefix(k.Prefix, apikey.Test) {
		p.Add("prefix", "must not be that of the keys that are issued here")
	}
	if utf8.RuneCountInString(k.LastFour) != 4 || strings.ContainsFunc(k.LastFour, unprintable) {
		p.Add("lastFour", "must be the last four characters of the key")
	}
	if k.Name != "" {
		k.Name = checked(p, k.Name, Name)
	}
	k.UseCase = checked(p, k.UseCase, UseCase)
	if account.ValidTier(k.Tier) != nil {
		p.Add("tier", "must be one of %s", account.TierNames())
	}
	k.ExpiresAt = k.ExpiresAt.UTC().Truncate(time.Microsecond)
	if k.ExpiresAt.IsZero() {
		p.Add("expiresAt", "must be a time such as 2027-01-31T00:00:00Z")
	}
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

func checked(p *api.Problems, s string, check func(string) (string, error)) string {
	s, err := check(s)
	if invalid := new(problem.Error); errors.As(err, &invalid) {
		p.Add(invalid.Path, "%s", invalid.Message)
	}
	return s
}

// StartsAt adds a problem if the key cannot be imported at now. It applies only to keys that do not
// exist yet.
func (k Older) StartsAt(p *api.Problems, now time.Time) {
	if !k.ExpiresAt.After(now) || k.ExpiresAt.After(now.Add(MaxLife)) {
		p.Add("expiresAt", "must be in the future, at most %d days from now", MaxLife/(24*time.Hour))
	}
}

// OlderWarnings returns the reasons why the gateway will not accept imported keys, as far as their
// form shows them.
func OlderWarnings(keys []Older, form apikey.OlderForm) []string {
	if len(keys) == 0 {
		return nil
	}
	if !form.Set() {
		return []string{
			"the gateway rejects these keys because OPPORTUNITY_OLDER_KEYS is not set: " +
				"set it to the form of the keys, for the gateway and authquota",
		}
	}
	var lines []string
	for _, k := range keys {
		if !form.CouldMatch(k.Prefix) {
			lines = append(lines, strconv.Itoa(k.Line))
		}
	}
	if len(lines) == 0 {
		return nil
	}
	named := strings.Join(lines[:min(len(lines), maxWarned)], ", ")
	if more := len(lines) - maxWarned; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	return []string{
		"the gateway rejects the keys on these lines because their prefix does not fit OPPORTUNITY_OLDER_KEYS: " + named,
	}
}

// Digests returns the possible digests of the key. It is stored under the first one.
func (k Older) Digests(peppers [][]byte) []string { return apikey.Older(k.SHA256).Digests(peppers) }

// ImportKeys imports keys of another form: all of them, or none if the report has rejected lines.
// Each new key gets its own account. An existing key stays unchanged.
func (s *Store) ImportKeys(ctx context.Context, actor string, lines []Older, peppers [][]byte) (api.ImportReport,
	error) {
	var report api.ImportReport
	err := s.db.Change(ctx, func(tx *accountdb.Tx) error {
		report = api.ImportReport{Rejected: []api.RejectedLine{}}
		fresh := make([]Older, 0, len(lines))
		for _, k := range lines {
			var held int64
			if err := tx.Model(&row{}).Where("digest IN ?", k.Digests(peppers)).Count(&held).Error; err != nil {
				return err
			}
			var wrong api.Problems
			switch k.StartsAt(&wrong, tx.Now); {
			case held > 0:
				report.Unchanged++
			case len(wrong) > 0:
				RejectLine(&report, k.Line, wrong)
			default:
				fresh = append(fresh, k)
			}
		}
		if len(report.Rejected) > 0 {
			report.Unchanged = 0
			return nil
		}
		report.Applied, report.Created = true, len(fresh)
		for _, k := range fresh {
			if err := importKey(tx, actor, k, peppers); err != nil {
				return err
			}
		}
		return nil
	})
	return report, err
}

func importKey(tx *accountdb.Tx, actor string, k Older, peppers [][]byte) error {
	a, err := holder(tx, actor, api.KeyOrder{Tier: k.Tier})
	if err != nil {
		return err
	}
	key := Key{ID: NewID(), Name: k.Name, UseCase: k.UseCase, ExpiresAt: k.ExpiresAt}
	if key, err = create(tx, a, key, Record{k.Digests(peppers)[0], k.Prefix, k.LastFour}); err != nil {
		return err
	}
	return errors.Join(tx.Touch(a.ID), tx.Record(actor, "key.import", key.ID, map[string]any{
		"account": a.ID, "tier": a.Granted, "useCase": k.UseCase, "expiresAt": k.ExpiresAt,
	}))
}
