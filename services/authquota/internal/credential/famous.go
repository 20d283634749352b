package credential

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// quoted are well-known phrases that a strength estimate overrates, reduced to letters and digits.
var quoted = []string{
	"correcthorsebatterystaple", "abandonallhopeyewhoenterhere", "allyourbasearebelongtous", "callmeishmael", "cogitoergosum",
	"donotgogentleintothatgoodnight", "elementarymydearwatson", "franklymydearidontgiveadamn",
	"houstonwehaveaproblem", "iamyourfather", "illbeback", "ihaveadream", "inthebeginningwastheword", "itwasthebestoftimes",
	"knowledgeispower", "loremipsumdolorsitamet", "maytheforcebewithyou", "mynameisinigomontoya", "nevergonnagiveyouup",
	"onceuponatime", "oneringtorulethemall", "opensesame", "theanswertolifetheuniverseandeverything",
	"thequickbrownfoxjumpsoverthelazydog", "tobeornottobethatisthequestion", "weholdthesetruthstobeselfevident",
	"winteriscoming", "youshallnotpass", "youneverwalkalone", "youllneverwalkalone",
}

// famous reports whether a password is a well-known phrase with little added.
func famous(pw string) bool {
	bare := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, pw)
	for _, q := range quoted {
		if strings.Contains(bare, q) && utf8.RuneCountInString(strings.ReplaceAll(bare, q, "")) < ShortestPassword {
			return true
		}
	}
	return false
}
