package account

import "time"

// NoticeDays are how many days before its end the person of a key is told of it, the last first.
var NoticeDays = []int{1, 7, 30}

// Notice is which of NoticeDays the key has reached last at now, or 0: a person who could not be told in time is told once, of what
// holds now. None is for a key that ends early anyway or has a successor, nor for one whose whole life is no longer than that.
func (k Key) Notice(now time.Time) int {
	if !k.Counts(now) {
		return 0
	}
	for _, days := range NoticeDays {
		if at := k.ExpiresAt.AddDate(0, 0, -days); !now.Before(at) {
			if at.After(k.CreatedAt) {
				return days
			}
			return 0
		}
	}
	return 0
}
