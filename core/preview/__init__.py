"""What a merge would take and do, estimated before anything is written."""
