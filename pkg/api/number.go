package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

// MaxDigits is the maximum number of digits of a number, written in full: without leading zeros,
// zeros at the end of the fraction, and exponent. A float64 keeps each such number, so what is read
// is what was written.
const MaxDigits = 15

const tooPrecise = "%q has more than %d digits and would be rounded"

var (
	plainNumber = regexp.MustCompile(`^(0|[1-9]\d*)(?:([.,])(\d+))?$`)

	// groupedNumbers match groups joined by one separator, with decimals after another one.
	groupedNumbers = func() (all []*regexp.Regexp) {
		for _, separator := range []string{" ", "\u00a0", "\u2009", "\u202f", "'", "\u2019", ",", `\.`} {
			all = append(all, regexp.MustCompile(`^([1-9]\d{0,2}(?:`+separator+`\d{3})+)(?:([.,])(\d+))?$`))
		}
		return all
	}()
)

// ParseNumber returns the number that a person typed in a form or a cell, as a JSON number. It
// accepts a text only if it has one reading:
//
//	45000  17.50  12,50  1,5  0,500  1234,567   a whole number, or one with decimals
//	45,000  45 000  45'000                      a whole number in groups of three digits
//	1,234,567  1.234.567                        groups of one kind: separators that repeat
//	1,234.56  1.234,56  1.234,567  1 234,56     groups of one kind, then decimals after another sign
//	-5  −5                                      a negative number
//
// A comma before exactly three digits separates a group (45,000), unless the number begins with
// zero (0,500 is a half). A point before exactly three digits has two readings, because both are
// common (45.000): the error names both and how to write each. FormatNumber writes such a fraction
// with a fourth digit.
//
// Errors quote the text and say what to write instead. They also reject a number without digits
// before or after its decimal sign (,5 and 5.), with a plus sign, a leading zero, a currency, a
// unit, digits other than 0 to 9, more than MaxDigits, or an exponent (2.01E+03), with which
// spreadsheets abbreviate.
func ParseNumber(text string) (json.Number, error) {
	given := strings.TrimSpace(text)
	sign, rest := "", given
	if after, negative := strings.CutPrefix(strings.Replace(rest, "\u2212", "-", 1), "-"); negative {
		sign, rest = "-", after
	}
	whole, fraction, ok := split(rest)
	switch {
	case !ok:
		return "", notNumber(given)
	case fraction == "":
	case len(fraction) == 3 && len(whole) <= 3 && whole != "0" && rest == whole+","+fraction:
		whole, fraction = whole+fraction, ""
	case len(fraction) == 3 && len(whole) <= 3 && whole != "0" && rest == whole+"."+fraction:
		number := sign + whole + fraction
		decimal := strings.TrimSuffix(strings.TrimRight(sign+rest, "0"), ".")
		return "", fmt.Errorf("%q can be %s or %s: write %s or %[3]s", given, decimal, number,
			FormatNumber(json.Number(decimal)))
	}
	if fraction = strings.TrimRight(fraction, "0"); fraction != "" {
		fraction = "." + fraction
	}
	number := json.Number(sign + whole + fraction)
	if number == "-0" {
		number = "0"
	}
	if CheckNumber(string(number)) != nil {
		return "", fmt.Errorf(tooPrecise, short(given), MaxDigits)
	}
	return number, nil
}

// split returns the digits before and after the decimal sign. It removes the separators of groups
// that cannot be decimal signs.
func split(text string) (whole, fraction string, ok bool) {
	if m := plainNumber.FindStringSubmatch(text); m != nil {
		return m[1], m[3], true
	}
	for _, form := range groupedNumbers {
		if m := form.FindStringSubmatch(text); m != nil && (m[2] == "" || !strings.Contains(m[1], m[2])) {
			return strings.Join(strings.FieldsFunc(m[1], func(r rune) bool { return r < '0' || r > '9' }), ""), m[3],
				true
		}
	}
	return "", "", false
}

var exponent = regexp.MustCompile(`^[-+]?\d+([.,]\d+)?[eE][-+]?\d+$`)

func notNumber(given string) error {
	switch {
	case given == "":
		return errors.New("enter a number such as 45000 or 17.50")
	case exponent.MatchString(given):
		return fmt.Errorf("%q is abbreviated: write all digits; in a spreadsheet, format the column as text first",
			short(given))
	}
	return fmt.Errorf("%q is not a number: write only digits and one decimal point, such as 45000 or 17.50",
		short(given))
}

// FormatNumber returns the text for a JSON number that ParseNumber reads as the same number.
func FormatNumber(number json.Number) string {
	if CheckNumber(string(number)) != nil {
		return string(number)
	}
	exact, _ := new(big.Rat).SetString(string(number)) // it is a number of few digits
	text := strings.TrimSuffix(strings.TrimRight(exact.FloatString(MaxDigits), "0"), ".")
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(text, "-"), ".")
	if len(fraction) == 3 && len(whole) <= 3 && whole != "0" { // has two readings
		text += "0"
	}
	return text
}

// FormatAmount is FormatNumber for an amount.
func FormatAmount(amount float64) string {
	return FormatNumber(json.Number(strconv.FormatFloat(amount, 'f', -1, 64)))
}

// CheckNumber returns an error if a literal, which must be a JSON number, has more than MaxDigits.
func CheckNumber(literal string) error {
	mantissa, power, _ := strings.Cut(strings.ToLower(strings.TrimPrefix(literal, "-")), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	all := whole + fraction
	digits := strings.TrimRight(all, "0")
	if digits == "" {
		return nil
	}
	shift, err := strconv.Atoi(power)
	if power != "" && err != nil || max(shift, -shift) > len(literal)+MaxDigits { // the digits do not make up for it
		return fmt.Errorf(tooPrecise, short(literal), MaxDigits)
	}
	decimals := max(len(fraction)-(len(all)-len(digits))-shift, 0)
	wholes := max(len(strings.TrimLeft(all, "0"))-len(fraction)+shift, 0)
	if wholes+decimals > MaxDigits {
		return fmt.Errorf(tooPrecise, short(literal), MaxDigits)
	}
	return nil
}

func short(text string) string {
	if runes := []rune(text); len(runes) > 40 {
		return string(runes[:40]) + "…"
	}
	return text
}
