package jsonlines_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/api/apitest"
	"opportunity.internal/pkg/jsonlines"
)

type pay struct {
	Minimum float64 `json:"minimum"`
	Unit    string  `json:"unit"`
}

type base struct {
	ID string `json:"id"`
}

type record struct {
	base
	At     *time.Time `json:"at"`
	Remote *bool      `json:"remote"`
	Pay    *pay       `json:"pay"`
	Pays   []pay      `json:"pays"`
	Tags   []string   `json:"tags"`
	Secret string     `json:"-"`
}

func readAll[T any](t testing.TB, r io.Reader) []jsonlines.Line[T] {
	t.Helper()
	var lines []jsonlines.Line[T]
	for line, err := range jsonlines.Read[T](r) {
		require.NoError(t, err)
		lines = append(lines, line)
	}
	return lines
}

func TestReadCountsBlankLinesAndSkipsThem(t *testing.T) {
	lines := readAll[record](t, strings.NewReader("\ufeff{\"id\":\"a\"}\r\n\n  \t\n{\"id\":\"b\"}\n{\"id\":\"c\"}"))
	require.Len(t, lines, 3)
	for i, want := range []struct {
		number int
		id     string
	}{{1, "a"}, {4, "b"}, {5, "c"}} {
		require.Equal(t, want.number, lines[i].Number)
		require.Equal(t, want.id, lines[i].Value.ID)
		require.Empty(t, lines[i].Problems)
	}
}

func TestReadReportsEveryProblemOfALine(t *testing.T) {
	for _, c := range []struct {
		name, line string
		problems   api.Problems
	}{
		{"all fields", `{"id":"a","at":"2026-11-20T09:00:00-05:00","remote":null,"pay":{"minimum":0,"unit":"hour"},` +
			`"pays":[],"tags":["x"]}`, nil},
		{"no fields", `{}`, nil},
		{"not JSON", `{"id"`, apitest.Problems("must be one JSON object: unexpected end of JSON input")},
		{"two values", `{} {}`, apitest.Problems("must be one JSON object: invalid character '{' after top-level value")},
		{"not an object", `12`, apitest.Problems("must be an object")},
		{"rounded number", `{"pay":{"minimum":9007199254740993,"unit":"hour"}}`,
			apitest.Problems(`pay.minimum: "9007199254740993" has more than 15 digits and would be rounded`)},
		{"number out of range", `{"pay":{"minimum":1e999,"unit":"hour"}}`,
			apitest.Problems(`pay.minimum: "1e999" has more than 15 digits and would be rounded`)},
		{"null", `null`, apitest.Problems("must be an object")},
		{"not UTF-8", "{\"id\":\"\xff\"}", apitest.Problems("must be UTF-8: save the file as UTF-8; nothing after this " +
			"line was read")},
		{"U+0000", `{"id":"a\u0000"}`, apitest.Problems("id: must not contain U+0000")},
		{"other case", `{"ID":"a"}`, apitest.Problems("ID: is not a known field")},
		{"field kept from files", `{"Secret":"x","-":"y"}`,
			apitest.Problems("Secret: is not a known field", "-: is not a known field")},
		{"unknown below, with a value to pass over",
			`{"pay":{"minimum":1,"unit":"hour","extra":{"a":[1,{}]}},"tags":[1]}`,
			apitest.Problems("pay.extra: is not a known field", "tags[0]: must be a string")},
		{"twice", `{"id":"a","id":"a"}`, apitest.Problems("id: is given twice")},
		{"null where the type has none", `{"id":null,"tags":null}`,
			apitest.Problems("id: must be a string", "tags: must be an array")},
		{"number left out", `{"pays":[{"unit":"hour"}]}`, apitest.Problems("pays[0].minimum: is missing")},
		{"number as text", `{"pay":{"minimum":"1"}}`, apitest.Problems("pay.minimum: must be a number, without quotes; " +
			"it is \"1\"")},
		{"bool as text", `{"remote":"true"}`, apitest.Problems(`remote: must be true or false; it is "true"`)},
		{"time without offset", `{"at":"2026-11-20T09:00:00"}`,
			apitest.Problems(`at: must be a timestamp with an offset or Z, such as 2026-11-20T09:00:00Z; ` +
				`"2026-11-20T09:00:00" is none`)},
		{"time with the offset of a day", `{"at":"2026-11-20T09:00:00+24:00"}`,
			apitest.Problems(`at: must be a timestamp with an offset or Z, such as 2026-11-20T09:00:00Z; ` +
				`"2026-11-20T09:00:00+24:00" is none`)},
		{"time as number", `{"at":5}`,
			apitest.Problems("at: must be a timestamp with an offset or Z, such as 2026-11-20T09:00:00Z")},
		{"several at once", `{"id":1,"remote":{},"pay":[{"a":1}],"x":0}`, apitest.Problems(
			"id: must be a string", "remote: must be true or false; it is {}", "pay: must be an object",
			"x: is not a known field")},
	} {
		t.Run(c.name, func(t *testing.T) {
			lines := readAll[record](t, strings.NewReader(c.line))
			require.Len(t, lines, 1)
			require.Equal(t, c.problems, lines[0].Problems)
		})
	}
}

func TestReadContinuesAfterLongLine(t *testing.T) {
	long := `{"id":"` + strings.Repeat("x", jsonlines.MaxLine) + `"}`
	fits := `{"id":"` + strings.Repeat("x", jsonlines.MaxLine-20) + `"}`
	lines := readAll[record](t, strings.NewReader(long+"\n"+fits+"\n"+long))
	require.Len(t, lines, 3)
	require.Equal(t, apitest.Problems("must have at most 1048576 bytes"), lines[0].Problems)
	require.Empty(t, lines[1].Problems)
	require.Equal(t, 3, lines[2].Number)
	require.NotEmpty(t, lines[2].Problems)
}

// Scan returns the first invalid lines and counts the others.
func TestScanLimitsRejectedLines(t *testing.T) {
	used := 0
	got, err := jsonlines.Scan(strings.NewReader("{\"id\":\"a\"}\n{x\n{x\n{x\n"), 2,
		func(line jsonlines.Line[record]) (record, string, api.Problems) {
			return line.Value, line.Value.ID, line.Problems
		}, func(record) error { used++; return nil })
	require.NoError(t, err)
	require.Equal(t, 1, used)
	require.Len(t, got.Rejected, 2)
	require.Equal(t, 3, got.Rejected[1].Line)
	require.Equal(t, 1, got.Omitted)
}

func TestReadReturnsReadError(t *testing.T) {
	broken := errors.New("cut off")
	var last error
	var numbers []int
	for line, err := range jsonlines.Read[record](io.MultiReader(strings.NewReader("{}\n{"),
		iotest.ErrReader(broken))) {
		last = err
		numbers = append(numbers, line.Number)
	}
	require.ErrorIs(t, last, broken, "an incomplete line must not be returned")
	require.Equal(t, []int{1, 2}, numbers)
}

// Read must terminate on any input and number the lines in order; a valid line has no U+0000.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{"", "{}", "{\"id\":\"a\"}\n{\"pay\":{\"minimum\":1}}\r\n", "[[[", "\ufeff\n\xff",
		`{"id":"\ud800"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		before := 0
		for _, line := range readAll[record](t, strings.NewReader(string(file))) {
			require.Greater(t, line.Number, before)
			before = line.Number
			if len(line.Problems) == 0 {
				require.NotContains(t, line.Value.ID, "\x00")
			}
		}
		require.LessOrEqual(t, before, strings.Count(string(file), "\n")+1)
	})
}

func TestFileThatIsWrongAsAWholeHasOneProblem(t *testing.T) {
	utf16 := func(text string) (out string) {
		for _, r := range text {
			out += string([]byte{byte(r), 0})
		}
		return out
	}
	many := strings.Repeat("{\"id\":\"a\"}\n", 60)
	for _, c := range []struct{ name, file, problem string }{
		{"empty", "", "the file is empty"},
		{"blank", " \n\ufeff", "the file is not JSON Lines, one JSON object on each line; for CSV, let its name end in .csv"},
		{"mark alone", "\ufeff\r\n", "the file has only spaces and line breaks"},
		{"UTF-16 with a mark", "\xff\xfe" + utf16(many), "the file is in UTF-16 or UTF-32: save it as UTF-8"},
		{"UTF-16 big-endian", "\xfe\xff\x00" + utf16(many), "the file is in UTF-16 or UTF-32: save it as UTF-8"},
		{"UTF-16 without a mark", utf16(many), "the file is in UTF-16 or UTF-32: save it as UTF-8"},
		{"array on one line", "[" + strings.ReplaceAll(many, "\n", ",") + "]",
			"the file is a JSON array: write one object on each line, without brackets and commas around them, such as with " +
				"jq -c '.[]'"},
		{"array on many lines", "\n[\n" + strings.ReplaceAll(many, "\n", ",\n") + "]",
			"the file is a JSON array: write one object on each line, without brackets and commas around them, such as with " +
				"jq -c '.[]'"},
		{"formatted object", "{\n  \"id\": \"a\"\n}\n",
			"the file has objects over several lines: write each object on one line, such as with jq -c ."},
		{"broken object", "{\"id\": \"a\",\n\"at\": null}\n",
			"the file has objects over several lines: write each object on one line, such as with jq -c ."},
		{"CSV", "id,at\na,\n", "the file is not JSON Lines, one JSON object on each line; for CSV, let its name end in .csv"},
		{"long CSV", strings.Repeat("id,at\n", 2000),
			"the file is not JSON Lines, one JSON object on each line; for CSV, let its name end in .csv"},
		{"workbook", "PK\x03\x04\x14\x00", "the file is a workbook or a ZIP archive: save the sheet as CSV in UTF-8, or " +
			"unpack the archive"},
		{"gzip", "\x1f\x8b\x08\x00", "the file is compressed: unpack it first"},
		{"carriage returns", "{}\r{}\r", "the lines of the file end with carriage returns alone: save it with line " +
			"feeds, in a spreadsheet as CSV UTF-8"},
		{"HTML", "<!DOCTYPE html>\n<html>", "the file is HTML or XML: save the file itself instead of a page about it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			lines := readAll[record](t, strings.NewReader(c.file))
			require.Len(t, lines, 1)
			require.Equal(t, 1, lines[0].Number)
			require.Equal(t, apitest.Problems(c.problem), lines[0].Problems)
		})
	}
	require.Len(t, readAll[record](t, strings.NewReader(many)), 60)
	lines := readAll[record](t, strings.NewReader(many+"{\"id\":\"\xe9\"}\n{\"id\":\"\xe9\"}\n"+many))
	require.Len(t, lines, 61, "reading ends with the first line in another encoding")
}

func TestCheckRejectsTextThatReadersUnderstandDifferently(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":["\ud83d"]}`:           `a[0]: must not contain \ud83d, half of a surrogate pair: write the character itself`,
		`{"a":{"b":"x\uDe00y"}}`:     `a.b: must not contain \uDe00, half of a surrogate pair: write the character itself`,
		`{"a":"\ude00\ud83d"}`:       `a: must not contain \ude00, half of a surrogate pair: write the character itself`,
		`{"a":"\ud83d\\ude00"}`:      `a: must not contain \ud83d, half of a surrogate pair: write the character itself`,
		`{"a":"\ud83d\ud83d\ude00"}`: `a: must not contain \ud83d, half of a surrogate pair: write the character itself`,
		`"\ud800\n"`:                 `must not contain \ud800, half of a surrogate pair: write the character itself`,
		`{"a":1,"b":[],"a":2}`:       `a: is given twice`,
		`{"a":{"b":1,"\u0062":2}}`:   `a.b: is given twice`,
		`{"a":1,"A":2}`:              `A: differs from "a" only in case: remove one of them`,
		`{"link":1,"lin\u212A":2}`:   `linK: differs from "link" only in case: remove one of them`,
		`[{"É":{"ſs":1,"ss":2}}]`:    `[0].É.ss: differs from "ſs" only in case: remove one of them`,
		`{"a":"\u0000"}`:             `a: must not contain U+0000`,
		"{\"a\":\"\xff\"}":           `must be UTF-8`,
		"{\"a\":\"\xed\xa0\xbd\"}":   `must be UTF-8`, // a surrogate encoded in UTF-8
		`{} {}`:                      `invalid character '{' after top-level value`,
		`{"a":1,}`:                   `invalid character '}' looking for beginning of object key string`,
		``:                           `unexpected end of JSON input`,
	} {
		require.EqualError(t, jsonlines.Check([]byte(text)), want, text)
	}
	require.ErrorContains(t, jsonlines.Check([]byte(`{"\ud83d":1}`)),
		`must not contain \ud83d, half of a surrogate pair`)
	for _, text := range []string{
		` {"a":"\ud83d\ude00 \\ud83d \\\ud83d\ude00 \u00e9","B":{"a":[{"a":1},{"A":[]}]}} `, `"\\"`, `[]`, `null`,
		`-1.5e3`, `{"":{"":""}}`, "\t[1 , 2]\n",
	} {
		require.NoError(t, jsonlines.Check([]byte(text)), text)
	}
}

// A text that Check accepts has the same value after it was decoded and encoded.
func FuzzCheck(f *testing.F) {
	for _, text := range []string{`{"a":["\ud83d\ude00",1.5,null]}`, `{"\ud83d":"\u00e9"}`, `[{"a":1,"a":2}]`,
		`"\\ud83d"`, "\"\xff\"", `[[],{}]`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var value any
		if jsonlines.Check([]byte(text)) != nil {
			return
		}
		in := json.NewDecoder(strings.NewReader(text))
		in.UseNumber()
		require.NoError(t, in.Decode(&value))
		require.Equal(t, strings.Contains(text, "\uFFFD") || strings.Contains(strings.ToLower(text), `\ufffd`),
			strings.Contains(fmt.Sprint(value), "\uFFFD"), "a character was replaced")
		again, err := json.Marshal(value)
		require.NoError(t, err)
		require.NoError(t, jsonlines.Check(again))
	})
}
