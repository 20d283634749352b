package opportunity

import (
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
)

// Matches reports whether the list and the search return a stored record for f at a time: with the
// province rule and the facts of three values, and verified computed from FreshUntil. It returns an
// error for a filter that the API rejects. Page and PageSize have no effect.
func Matches(o Opportunity, f SearchFilter, now time.Time) (bool, error) {
	country, province, after, err := f.parse()
	if err != nil {
		return false, err
	}
	checked, subcategory, unit := o.Verification.LastCheckedAt, "", PayUnit("")
	if o.Subcategory != nil {
		subcategory = *o.Subcategory
	}
	if o.Facts.Pay != nil {
		unit = o.Facts.Pay.Unit
	}
	meets := func(want, fact Tri) bool { return !want.Known() || want == fact }
	resident := func(c CountryEligibility) bool { return c.covers(country, province) }
	speaks := func(l string) bool { return begin(words(f.Language), words(l)) }
	text := words(o.Company.Name + "\n" + subcategory + "\n" + o.Summary)
	return (country == "" || slices.ContainsFunc(o.Facts.CountryEligibility, resident)) &&
		meets(f.Remote, o.Facts.Remote) && meets(f.Verified, o.Verification.verified(now)) &&
		meets(f.DegreeRequired, o.Facts.DegreeRequired) && meets(f.ExperienceRequired, o.Facts.ExperienceRequired) &&
		meets(f.Flexible, o.Facts.FlexibleSchedule) && (f.Category == "" || f.Category == o.Category) &&
		(f.CheckedAfter == "" || checked != nil && !checked.Before(after)) && begin(words(f.Q), text) &&
		(f.ApplicationStatus == "" || f.ApplicationStatus == o.Facts.ApplicationStatus) &&
		(f.Language == "" || slices.ContainsFunc(o.Facts.Languages, speaks)) &&
		(f.PayUnit == "" || f.PayUnit == unit) &&
		(f.Subcategory == "" || slices.Equal(words(f.Subcategory), words(subcategory))), nil
}

// verified reports whether the status is verified at now. It is unknown without a review.
func (v Verification) verified(now time.Time) Tri {
	reviewed := v.Status == VerificationStatusVerified || v.Status == VerificationStatusStale
	switch {
	case v.ReviewCount == 0:
		return Unknown
	case reviewed && v.FreshUntil != nil && !now.After(*v.FreshUntil):
		return True
	}
	return False
}

// covers reports whether residents of a country are eligible and, unless province is empty, whether
// a source says so of the province.
func (c CountryEligibility) covers(country, province string) bool {
	if c.Country != country || c.Status != EligibilityEligible {
		return false
	}
	return province == "" || len(c.SourceURLs) > 0 && !slices.Contains(c.ExcludedRegions, province) &&
		(c.AllRegions == True || slices.Contains(c.IncludedRegions, province))
}

var (
	countryForm  = regexp.MustCompile(`^[A-Za-z]{2}$`)
	provinceForm = regexp.MustCompile(`^(CA-)?(AB|BC|MB|NB|NL|NS|NT|NU|ON|PE|QC|SK|YT)$`)
)

// parse returns the values that have several forms, in that of records.
func (f SearchFilter) parse() (country, province string, after time.Time, err error) {
	country, province = strings.ToUpper(f.Country), strings.ToUpper(f.Province)
	switch {
	case country != "" && !countryForm.MatchString(f.Country):
		err = fmt.Errorf("opportunity: invalid Country %q: use two letters, such as CA", f.Country)
	case province != "" && !provinceForm.MatchString(province):
		err = fmt.Errorf("opportunity: invalid Province %q: use a Canadian province, such as ON or CA-ON", f.Province)
	case province != "" && country != "CA":
		err = errors.New("opportunity: Province needs Country CA")
	}
	for _, text := range []string{f.Q, f.Language, f.Subcategory} {
		if text != "" && len(words(text)) == 0 {
			err = fmt.Errorf("opportunity: invalid text %q: it needs a letter or a digit", text)
		}
	}
	if province != "" {
		province = "CA-" + strings.TrimPrefix(province, "CA-")
	}
	if f.CheckedAfter != "" && err == nil {
		after, err = f.CheckedAfter.Time()
	}
	return country, province, after, err
}

// instants are the forms of ISO 8601 that name a day or an instant, extended and basic.
var instants = []*regexp.Regexp{
	regexp.MustCompile(`^(\d{4})-(\d\d)-(\d\d)(?:T(\d\d)(?::(\d\d)(?::(\d\d))?)?(?:[.,](\d+))?(?:Z|` +
		`([+-]\d\d)(?::?(\d\d))?))?$`),
	regexp.MustCompile(`^(\d{4})(\d\d)(\d\d)(?:T(\d\d)(?:(\d\d)(\d\d)?)?(?:[.,](\d+))?(?:Z|([+-]\d\d)(?::?(\d\d))?))?$`),
}

// Time returns the time in UTC: that of a timestamp, or 00:00:00 UTC of a date.
func (i Instant) Time() (time.Time, error) {
	invalid := fmt.Errorf("opportunity: invalid time %q: use a date, or a timestamp with an offset", string(i))
	parts := instants[0].FindStringSubmatch(string(i))
	if parts == nil {
		parts = instants[1].FindStringSubmatch(string(i))
	}
	if parts == nil {
		return time.Time{}, invalid
	}
	var n [10]int
	for at, part := range parts[1:] {
		n[at+1], _ = strconv.Atoi(part)
	}
	hour, minute, second, offsetHour, offsetMinute := n[4], n[5], n[6], n[8], n[9]
	unit := time.Second // of the fraction
	switch {
	case parts[5] == "":
		unit = time.Hour
	case parts[6] == "":
		unit = time.Minute
	}
	fraction, _ := strconv.Atoi((parts[7] + "000000000")[:9])
	rest := time.Duration(fraction) * (unit / time.Second)
	day := time.Date(n[1], time.Month(n[2]), n[3], 0, 0, 0, 0, time.UTC)
	endOfDay := hour == 24 && minute+second == 0 && rest == 0
	if day.Day() != n[3] || int(day.Month()) != n[2] || hour > 23 && !endOfDay || minute > 59 || second > 59 ||
		max(offsetHour, -offsetHour) > 23 || offsetMinute > 59 {
		return time.Time{}, invalid
	}
	if strings.HasPrefix(parts[8], "-") {
		offsetMinute = -offsetMinute
	}
	clock := time.Duration(hour-offsetHour)*time.Hour + time.Duration(minute-offsetMinute)*time.Minute
	return day.Add(clock + time.Duration(second)*time.Second + rest), nil
}

//go:embed letters.txt
var letterLines string

// letters maps letters to what they become, beside lower case.
var letters = sync.OnceValue(func() map[rune]string {
	all := map[rune]string{}
	for line := range strings.Lines(letterLines) {
		becomes, of, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		for _, r := range of {
			all[r] = becomes
		}
	}
	return all
})

// words returns the words of text in the form in which the search compares them: without case,
// accents and Unicode forms.
func words(text string) []string {
	var b strings.Builder
	for _, r := range text {
		if becomes, ok := letters()[r]; ok {
			b.WriteString(becomes)
		} else if r >= 0xAC00 && r <= 0xD7A3 { // a Hangul syllable becomes its letters
			at := r - 0xAC00
			b.WriteString(string([]rune{0x1100 + at/588, 0x1161 + at%588/28}))
			if at%28 > 0 {
				b.WriteRune(0x11A7 + at%28)
			}
		} else if !unicode.IsMark(r) && !unicode.Is(unicode.Cf, r) {
			b.WriteRune(unicode.ToLower(r))
		}
	}
	return strings.FieldsFunc(b.String(), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
}

// begin reports whether each of the words begins one of text.
func begin(words, text []string) bool {
	return !slices.ContainsFunc(words, func(w string) bool {
		return !slices.ContainsFunc(text, func(of string) bool { return strings.HasPrefix(of, w) })
	})
}
