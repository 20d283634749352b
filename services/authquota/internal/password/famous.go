package password

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// quoted are words in a row that look strong to a rule and are known to everybody, as letters and digits alone.
var quoted = []string{
	"correcthorsebatterystaple", "abandonallhopeyewhoenterhere", "allyourbasearebelongtous", "callmeishmael", "cogitoergosum",
	"donotgogentleintothatgoodnight", "elementarymydearwatson", "franklymydearidontgiveadamn",
	"houstonwehaveaproblem", "iamyourfather", "illbeback", "ihaveadream", "inthebeginningwastheword", "itwasthebestoftimes",
	"knowledgeispower", "loremipsumdolorsitamet", "maytheforcebewithyou", "mynameisinigomontoya", "nevergonnagiveyouup",
	"onceuponatime", "oneringtorulethemall", "opensesame", "theanswertolifetheuniverseandeverything",
	"thequickbrownfoxjumpsoverthelazydog", "tobeornottobethatisthequestion", "weholdthesetruthstobeselfevident",
	"winteriscoming", "youshallnotpass", "youneverwalkalone", "youllneverwalkalone",
}

// famous reports whether a password is a quotation with so little beside it that this would be no password by itself.
func famous(pw string) bool {
	bare := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, pw)
	for _, q := range quoted {
		if strings.Contains(bare, q) && utf8.RuneCountInString(strings.ReplaceAll(bare, q, "")) < Shortest {
			return true
		}
	}
	return false
}
