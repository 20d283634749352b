package keys

import "time"

// NoticeDays are the days before expiry when the person is notified, in ascending order.
var NoticeDays = []int{1, 7, 30}

// Notice returns the latest of NoticeDays that the key has reached at now, or 0. After a delay, only the latest notice is sent.
// A key gets no notice if it was revoked, has a successor, or has a life no longer than that.
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
