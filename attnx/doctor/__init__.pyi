from attnx.doctor.checks import examine as examine
