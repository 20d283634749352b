package apikey

import (
	"encoding/hex"
	"fmt"
)

const minPepper = 32

// MaxPeppers is how many peppers may be in force at a time; a key is asked for under each.
const MaxPeppers = 8

// Peppers decodes the peppers of Digests from hexadecimal. Each must have at least 32 bytes; an error tells which has not, and
// never its value.
func Peppers(encoded []string) ([][]byte, error) {
	if len(encoded) == 0 || len(encoded) > MaxPeppers {
		return nil, fmt.Errorf("1 to %d peppers are needed", MaxPeppers)
	}
	peppers := make([][]byte, len(encoded))
	for i, e := range encoded {
		pepper, err := hex.DecodeString(e)
		if err != nil || len(pepper) < minPepper {
			return nil, fmt.Errorf("pepper %d must be at least %d bytes in hexadecimal", i+1, minPepper)
		}
		peppers[i] = pepper
	}
	return peppers, nil
}
