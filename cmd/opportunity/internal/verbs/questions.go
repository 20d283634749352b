package verbs

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"opportunity.internal/pkg/api"
)

// questions is a review interview. It starts with the known facts, and answers replace them.
type questions struct {
	in  *bufio.Reader
	out io.Writer

	before, facts api.Facts
	outcome       string
	sources       []string
	note          string
}

func newQuestions(in *bufio.Reader, out io.Writer, sheet api.ReviewSheet) *questions {
	q := &questions{in: in, out: out, before: sheet.CurrentFacts(), sources: []string{}}
	q.facts = clone(q.before)
	for _, s := range sheet.Record.Sources {
		q.sources = append(q.sources, s.URL)
	}
	return q
}

func clone(f api.Facts) (c api.Facts) {
	text, _ := json.Marshal(f) // facts always encode
	_ = json.Unmarshal(text, &c)
	return c
}

var errEnded = errors.New("input ended: nothing was appended")

// ask repeats a question until take accepts the reply by returning nil. An empty reply keeps the current value.
func (q *questions) ask(question, current string, take func(answer string) error) error {
	for {
		fmt.Fprintf(q.out, "%s [%s]: ", question, current)
		line, err := q.in.ReadString('\n')
		if err != nil {
			fmt.Fprintln(q.out)
			return errEnded
		}
		wrong := take(strings.TrimSpace(line))
		if wrong == nil {
			return nil
		}
		fmt.Fprintf(q.out, "  %s\n", wrong)
	}
}

// fact asks for one part of the facts, at path, and validates it by the rules of events files.
func (q *questions) fact(question, path, current string, set func(f *api.Facts, answer string) error) error {
	return q.ask(question, current, func(answer string) error {
		tried := clone(q.facts)
		if answer != "" {
			if err := set(&tried, answer); err != nil {
				return err
			}
		}
		var problems api.Problems
		tried.Normalize("facts", &problems)
		for _, p := range problems {
			if rest, here := strings.CutPrefix(p, "facts."+path); here && strings.ContainsAny(rest[:1], ":[.") {
				return errors.New(strings.TrimPrefix(p, "facts."))
			}
		}
		q.facts = tried
		return nil
	})
}

// all asks each question once.
func (q *questions) all() error {
	fmt.Fprintln(q.out, "\nPress Enter to keep the value in brackets. Enter ? for unknown, or - to clear the value.")
	for _, step := range []func() error{q.countries, q.yesOrNo, q.pay, q.lists, q.application, q.risks, q.verdict} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (q *questions) yesOrNo() error {
	for _, b := range api.BoolFacts {
		err := q.fact(b.Label+" (yes, no, ?)", b.Name, known(*b.Value(&q.facts)), func(f *api.Facts, answer string) (err error) {
			*b.Value(f), err = triState(answer)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func known(b *bool) string {
	if b == nil {
		return "?"
	}
	return yesNo(b)
}

func triState(answer string) (*bool, error) {
	switch strings.ToLower(answer) {
	case "yes", "y":
		return new(true), nil
	case "no", "n":
		return new(false), nil
	case "?":
		return nil, nil
	}
	return nil, errors.New("enter yes, no or ?")
}

// list splits an answer into items; - and ? mean an empty list.
func list(answer, separators string) []string {
	items := []string{}
	if answer == "-" || answer == "?" {
		return items
	}
	for item := range strings.FieldsFuncSeq(answer, func(r rune) bool { return strings.ContainsRune(separators, r) }) {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

func (q *questions) verdict() error {
	outcomes := []string{}
	for _, o := range api.Outcomes[api.Review] {
		outcomes = append(outcomes, string(o))
	}
	err := q.ask("Outcome ("+strings.Join(outcomes, ", ")+")", q.outcome, func(answer string) error {
		if answer == "" {
			answer = q.outcome
		}
		if !slices.Contains(outcomes, answer) {
			return fmt.Errorf("enter one of %s", strings.Join(outcomes, ", "))
		}
		q.outcome = answer
		return nil
	})
	if err != nil {
		return err
	}
	err = q.ask("Source URLs (separated by spaces)", strings.Join(q.sources, " "), func(answer string) error {
		sources := q.sources
		if answer != "" {
			sources = list(answer, " ,")
		}
		var problems api.Problems
		problems.URLs("sourceUrls", sources)
		if len(problems) > 0 {
			return errors.New(problems[0])
		}
		q.sources = sources
		return nil
	})
	if err != nil {
		return err
	}
	return q.ask("Note", q.note, func(answer string) error {
		var problems api.Problems
		if problems.AtMost("note", answer, api.MaxText); len(problems) > 0 {
			return errors.New(problems[0])
		}
		switch answer {
		case "":
		case "-":
			q.note = ""
		default:
			q.note = answer
		}
		return nil
	})
}

// sure asks whether to append the review. It returns "yes", "no" or "again".
func (q *questions) sure() (answered string, err error) {
	err = q.ask("Append it? (yes, no, again)", "", func(answer string) error {
		for _, word := range []string{"yes", "no", "again"} {
			if answer == word {
				answered = word
				return nil
			}
		}
		return errors.New("enter yes, no or again")
	})
	return answered, err
}

// event returns the review as a line of an events file. Unless the outcome is verified, it has facts only if they changed.
func (q *questions) event(slug string, sheet api.ReviewSheet) ([]byte, error) {
	e := review{
		Slug: slug, CheckedAt: timestamp(sheet.GeneratedAt), CheckType: api.Review, Outcome: q.outcome, SourceURLs: q.sources, Note: q.note,
		LastEventID: sheet.LastEventID,
	}
	facts, err := json.Marshal(q.facts)
	if err != nil {
		return nil, err
	}
	before, err := json.Marshal(q.before)
	if err != nil {
		return nil, err
	}
	if q.outcome == string(api.OutcomeVerified) || string(facts) != string(before) {
		e.Facts = facts
	}
	return json.Marshal(e)
}
