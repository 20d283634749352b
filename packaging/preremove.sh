#!/bin/sh
# deb: "remove" or "upgrade". rpm: the number of versions that stay.
set -e
case $1 in remove | 0) ;; *) exit 0 ;; esac
[ -d /run/systemd/system ] || exit 0
systemctl stop 'opportunity*'
systemctl disable opportunity.target opportunity-check-links.timer opportunity-reconcile.timer opportunity-backup.timer \
  opportunity-serve@gateway opportunity-serve@catalog opportunity-serve@history opportunity-serve@authquota opportunity-serve@billing
