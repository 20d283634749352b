package api_test

import (
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"opportunity.internal/pkg/api"
)

func TestParseNumberAcceptsTextsWithOneReading(t *testing.T) {
	for text, want := range map[string]json.Number{
		"0": "0", "45": "45", "45000": "45000", " 17.50 ": "17.5", "1,5": "1.5", "12,50": "12.5", "1,2345": "1.2345",
		"0,500": "0.5", "0.500": "0.5", "0,045": "0.045",
		"45,000": "45000", "1,000": "1000", "999,999": "999999", "1,234,567": "1234567", "1.234.567": "1234567",
		"1234,567": "1234.567", "1234.567": "1234.567",
		"45 000": "45000", "45\u00a0000": "45000", "45\u202f000": "45000", "45\u2009000": "45000", "45'000": "45000",
		"45’000": "45000", "1 234 567": "1234567",
		"1.234,56": "1234.56", "1,234.56": "1234.56", "1.234,567": "1234.567", "1 234,56": "1234.56",
		"1'234.50": "1234.5", "1,234,567.89": "1234567.89",
		"1 234,567": "1234.567", "1.0000": "1", "17.1250": "17.125",
		"-5": "-5", "−5": "-5", "-45,000": "-45000", "-0": "0", "0.0": "0",
		"999999999999999": "999999999999999", "0.000000000000001": "0.000000000000001",
		"9.99999999999999": "9.99999999999999", "\u00a045\u00a0": "45",
	} {
		got, err := api.ParseNumber(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
}

func TestParseNumberSaysWhatToWriteInstead(t *testing.T) {
	for text, want := range map[string]string{
		"":       "enter a number such as 45000 or 17.50",
		"45.000": `"45.000" can be 45 or 45000: write 45 or 45000`,
		"-1.125": `"-1.125" can be -1.125 or -1125: write -1.1250 or -1125`,
		"2.01E+03": `"2.01E+03" is abbreviated: write all digits; in a spreadsheet, format the column as text ` +
			`first`,
		"1e3":                `"1e3" is abbreviated: write all digits; in a spreadsheet, format the column as text first`,
		"9007199254740993":   `"9007199254740993" has more than 15 digits and would be rounded`,
		"1000000000000000":   `"1000000000000000" has more than 15 digits and would be rounded`,
		"0.1234567890123456": `"0.1234567890123456" has more than 15 digits and would be rounded`,
		"45k":                `"45k" is not a number: write only digits and one decimal point, such as 45000 or 17.50`,
		strings.Repeat("x", 99): `"` + strings.Repeat("x", 40) +
			`…" is not a number: write only digits and one decimal point, such as 45000 or 17.50`,
	} {
		_, err := api.ParseNumber(text)
		require.EqualError(t, err, want, text)
	}
	for _, text := range []string{
		",5", ".5", "5.", "5,", "+5", "--5", "- 5", "5-", "$45", "45 CAD", "45%", "17-20", "17 20", "045", "00", "00.5",
		"0,500,000", "0 500", "1,23,456", "1,00,000",
		"1,234 567", "1,234.567,8", "1.234.56", "1,234,56", "1 234 56", "1,,234", "1..5", "1 2345", "1234,567,890",
		"1234 567", "٤٥", "４５", "0x10", "1_000", "NaN", "Inf", "½", "1\u200b5",
		"1\n234", "1\u00a0234 567", "1·5", "(5)",
	} {
		got, err := api.ParseNumber(text)
		require.ErrorContains(t, err, " is not a number: ", "%q is %s", text, got)
	}
}

// FormatNumber writes each number that CheckNumber accepts so that ParseNumber reads it.
func TestParseNumberReadsFormatNumber(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		literal := rapid.StringMatching(`-?(0|[1-9][0-9]{0,16})(\.[0-9]{1,16})?([eE][-+]?[0-9]{1,2})?`).Draw(t,
			"literal")
		value, ok := new(big.Rat).SetString(literal)
		require.True(t, ok)
		f, err := strconv.ParseFloat(literal, 64)
		require.NoError(t, err)
		if api.CheckNumber(literal) != nil {
			return
		}
		got, err := api.ParseNumber(api.FormatNumber(json.Number(literal)))
		require.NoError(t, err)
		same, _ := new(big.Rat).SetString(string(got))
		require.Zero(t, value.Cmp(same), "%s became %s", literal, got)
		kept, _ := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', 15, 64))
		require.Zero(t, value.Cmp(kept), "%s is rounded", literal)
	})
}

func TestCheckNumberCountsTheDigitsOfTheNumberInFull(t *testing.T) {
	for literal, accepted := range map[string]bool{
		"0": true, "-0.000": true, "0e999999999999999999999": true, "17.50": true, "1e3": true, "1E14": true,
		"1e15": false, "1e-15": true, "1e-16": false,
		"9007199254740993": false, "123456789012345": true, "0.1234567890123450000": true,
		"100000000000000000000000000000": false, "123456789012345678901234567890": false,
		"1e99999999999999999999": false, "1e-400": false, "1000000000000000e-15": true,
		"0.000000000000000000001e21": true, "1.5e1": true, "123456789012345.5": false,
		"1" + strings.Repeat("0", 99) + "e-99": true,
	} {
		require.Equal(t, accepted, api.CheckNumber(literal) == nil, literal)
	}
}

func FuzzParseNumber(f *testing.F) {
	for _, seed := range []string{"45,000", "45.000", "1.234,56", "−5", "1 234", "2.01E+03", ",5", "0,500"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := api.ParseNumber(text)
		if err != nil {
			require.Empty(t, got)
			return
		}
		require.True(t, json.Valid([]byte(got)), "%q is %s", text, got)
		require.NoError(t, api.CheckNumber(string(got)), text)
		again, err := api.ParseNumber(api.FormatNumber(got))
		require.NoError(t, err, text)
		require.Equal(t, got, again, text)
		digits := func(s string) string {
			return strings.Trim(strings.Map(func(r rune) rune {
				if r < '0' || r > '9' {
					return -1
				}
				return r
			}, s), "0")
		}
		require.Equal(t, digits(text), digits(string(got)), "%q is %s: digits are lost", text, got)
	})
}
