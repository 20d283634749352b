package api

import "regexp"

// formula matches the places in a cell where a spreadsheet would begin a formula: at the start, or
// after a semicolon, which separates cells in some countries. Before the sign of a formula there
// can be characters that show nothing, which spreadsheets skip, after any number of apostrophes. A
// cell that begins with a tab or a line break counts too. sdk/conformance/csv.json has examples;
// the SDKs have the same rule.
var formula = regexp.MustCompile(`(^|;)('*` + invisible + `*[=+\-@＝＋－＠])|^('*` + invisible + `*[\t\r\n])`)

// escaped matches the same places behind the apostrophe of EscapeFormulas.
var escaped = regexp.MustCompile(`(^|;)'('*` + invisible + `*[=+\-@＝＋－＠])|^'('*` + invisible + `*[\t\r\n])`)

// invisible matches a space, a control character, or another character that shows nothing.
const invisible = `[\x00-\x20\x7f-\xa0\xad\x{34f}\x{61c}\x{115f}\x{1160}\x{1680}\x{17b4}\x{17b5}\x{180b}-\x{180f}` +
	`\x{2000}-\x{200f}\x{2028}-\x{202f}\x{205f}-\x{206f}\x{3000}\x{3164}\x{fe00}-\x{fe0f}\x{feff}\x{ffa0}` +
	`\x{fff0}-\x{fffb}\x{1d173}-\x{1d17a}\x{e0000}-\x{e0fff}]`

// EscapeFormulas puts an apostrophe in front of what a spreadsheet would run as a formula in a cell
// of a CSV file, so that it is text.
func EscapeFormulas(cell string) string { return formula.ReplaceAllString(cell, "$1'$2$3") }

// UnescapeFormulas reverses EscapeFormulas.
func UnescapeFormulas(cell string) string { return escaped.ReplaceAllString(cell, "$1$2$3") }
