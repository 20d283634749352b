package verbs

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"opportunity.internal/pkg/api"
)

// Questions about the facts that are not booleans.

func (q *questions) countries() error {
	for i := 0; i < len(q.facts.CountryEligibility); i++ {
		before := len(q.facts.CountryEligibility)
		if err := q.country(i); err != nil {
			return err
		}
		if len(q.facts.CountryEligibility) < before {
			i--
		}
	}
	for {
		more, at := false, len(q.facts.CountryEligibility)
		path := fmt.Sprintf("countryEligibility[%d].country", at)
		err := q.fact("Another country (two letters; Enter: none)", path, "", func(f *api.Facts, answer string) error {
			more = true
			f.CountryEligibility = append(f.CountryEligibility, api.CountryEligibility{Country: strings.ToUpper(answer), Status: api.EligibilityUnknown})
			return nil
		})
		if err != nil || !more {
			return err
		}
		if err := q.country(at); err != nil {
			return err
		}
	}
}

// country asks about the country at index i. Entering - as its status removes the country.
func (q *questions) country(i int) error {
	c := q.facts.CountryEligibility[i]
	path, removed := fmt.Sprintf("countryEligibility[%d].", i), false
	err := q.fact(c.Country+" (eligible, ineligible, ?; - removes it)", path+"status", string(c.Status), func(f *api.Facts, answer string) error {
		if removed = answer == "-"; removed {
			f.CountryEligibility = append(f.CountryEligibility[:i], f.CountryEligibility[i+1:]...)
			return nil
		}
		if answer == "?" {
			answer = string(api.EligibilityUnknown)
		}
		f.CountryEligibility[i].Status = api.Eligibility(answer)
		return nil
	})
	if err != nil || removed {
		return err
	}
	err = q.fact(c.Country+", all regions (yes, no, ?)", path+"allRegions", known(c.AllRegions), func(f *api.Facts, answer string) (err error) {
		f.CountryEligibility[i].AllRegions, err = triState(answer)
		return err
	})
	if err != nil {
		return err
	}
	for _, l := range []struct {
		question, field, current string
		value                    func(*api.CountryEligibility) *[]string
	}{
		{"regions included (such as ON QC)", "includedRegions", strings.Join(c.IncludedRegions, " "), func(c *api.CountryEligibility) *[]string { return &c.IncludedRegions }},
		{"regions excluded", "excludedRegions", strings.Join(c.ExcludedRegions, " "), func(c *api.CountryEligibility) *[]string { return &c.ExcludedRegions }},
		{"source URLs (separated by spaces)", "sourceUrls", strings.Join(c.SourceURLs, " "), func(c *api.CountryEligibility) *[]string { return &c.SourceURLs }},
	} {
		err := q.fact(c.Country+", "+l.question, path+l.field, l.current, func(f *api.Facts, answer string) error {
			*l.value(&f.CountryEligibility[i]) = list(answer, " ,")
			return nil
		})
		if err != nil {
			return err
		}
	}
	return q.fact(c.Country+", note", path+"note", c.Note, func(f *api.Facts, answer string) error {
		f.CountryEligibility[i].Note = text(answer)
		return nil
	})
}

// text returns a text answer; - and ? mean an empty text.
func text(answer string) string {
	if answer == "-" || answer == "?" {
		return ""
	}
	return answer
}

func (q *questions) pay() error {
	current := "?"
	if p := q.facts.Pay; p != nil {
		current = amount(p.Minimum)
	}
	err := q.fact("Pay, minimum (?: unknown)", "pay.minimum", current, func(f *api.Facts, answer string) error {
		if answer == "?" {
			f.Pay = nil
			return nil
		}
		n, err := number64(answer)
		if err == nil && f.Pay == nil {
			f.Pay = &api.Pay{Maximum: n}
		}
		if err == nil {
			f.Pay.Minimum = n
		}
		return err
	})
	if err != nil || q.facts.Pay == nil {
		return err
	}
	p := q.facts.Pay
	for _, part := range []struct {
		question, field, current string
		set                      func(p *api.Pay, answer string) error
	}{
		{"maximum", "maximum", amount(p.Maximum), func(p *api.Pay, answer string) (err error) { p.Maximum, err = number64(answer); return err }},
		{"currency (such as CAD)", "currency", p.Currency, func(p *api.Pay, answer string) error { p.Currency = strings.ToUpper(answer); return nil }},
		{"unit (hour, year, task, audio-minute)", "unit", string(p.Unit), func(p *api.Pay, answer string) error { p.Unit = api.PayUnit(answer); return nil }},
		{"source URL", "sourceUrl", p.SourceURL, func(p *api.Pay, answer string) error { p.SourceURL = answer; return nil }},
	} {
		err := q.fact("Pay, "+part.question, "pay."+part.field, part.current, func(f *api.Facts, answer string) error { return part.set(f.Pay, answer) })
		if err != nil {
			return err
		}
	}
	return nil
}

func amount(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

func number64(answer string) (float64, error) {
	n, err := strconv.ParseFloat(answer, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return 0, errors.New("must be a number, such as 17.5")
	}
	return n, nil
}

func (q *questions) lists() error {
	err := q.fact("Languages (separated by commas)", "languages", strings.Join(q.facts.Languages, ", "), func(f *api.Facts, answer string) error {
		f.Languages = list(answer, ",")
		return nil
	})
	if err != nil {
		return err
	}
	return q.fact("Requirements (separated by semicolons)", "requirements", strings.Join(q.facts.Requirements, "; "), func(f *api.Facts, answer string) error {
		f.Requirements = list(answer, ";")
		return nil
	})
}

func (q *questions) application() error {
	err := q.fact("Applications (open, waitlist, closed, ?)", "applicationStatus", string(q.facts.ApplicationStatus), func(f *api.Facts, answer string) error {
		if answer == "?" {
			answer = string(api.ApplicationUnknown)
		}
		f.ApplicationStatus = api.ApplicationStatus(answer)
		return nil
	})
	if err != nil {
		return err
	}
	current := "?"
	if u := q.facts.ApplicationURL; u != nil {
		current = *u
	}
	return q.fact("Where to apply", "applicationUrl", current, func(f *api.Facts, answer string) error {
		if f.ApplicationURL = &answer; text(answer) == "" {
			f.ApplicationURL = nil
		}
		return nil
	})
}

func (q *questions) risks() error {
	for i := 0; i < len(q.facts.RiskIndicators); {
		r, removed := q.facts.RiskIndicators[i], false
		current := strings.TrimSpace(r.Code + " " + r.Note)
		err := q.fact("Risk indicator (Enter: keep; -: remove)", fmt.Sprintf("riskIndicators[%d]", i), current, func(f *api.Facts, answer string) error {
			if removed = answer == "-"; !removed {
				return errors.New("press Enter to keep it, or enter - to remove it")
			}
			f.RiskIndicators = append(f.RiskIndicators[:i], f.RiskIndicators[i+1:]...)
			return nil
		})
		if err != nil {
			return err
		}
		if !removed {
			i++
		}
	}
	for {
		more, at := false, len(q.facts.RiskIndicators)
		path := fmt.Sprintf("riskIndicators[%d].", at)
		err := q.fact("Another risk indicator (code such as fees; Enter: none)", path+"code", "", func(f *api.Facts, answer string) error {
			more = true
			f.RiskIndicators = append(f.RiskIndicators, api.RiskIndicator{Code: answer})
			return nil
		})
		if err != nil || !more {
			return err
		}
		err = q.fact("Risk indicator, note", path+"note", "", func(f *api.Facts, answer string) error {
			f.RiskIndicators[at].Note = text(answer)
			return nil
		})
		if err != nil {
			return err
		}
		err = q.fact("Risk indicator, source URL", path+"sourceUrl", "", func(f *api.Facts, answer string) error {
			f.RiskIndicators[at].SourceURL = answer
			return nil
		})
		if err != nil {
			return err
		}
	}
}
