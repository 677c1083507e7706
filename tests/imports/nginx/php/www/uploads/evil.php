<?php // uploads/evil.php
